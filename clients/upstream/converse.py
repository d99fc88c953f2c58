"""Bedrock's Converse, and the event streams of AWS."""

from __future__ import annotations

import json
import struct
from binascii import crc32

from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Json, Turn, cut, media, need

# Refusals for the sake of a key have another status here.
KINDS = {401: "UnrecognizedClientException", 429: "ThrottlingException", 400: "ValidationException", 500: "InternalServerException"}


def read(body: Json) -> Asked:
    need(body.get("messages"), "messages: a list that is not empty is needed")
    asked = Asked("", system="".join(part["text"] for part in body.get("system") or [] if "text" in part))
    called: set[str] = set()
    before = None
    for message in body["messages"]:
        need(message["role"] != before, "A conversation must alternate between user and assistant roles.")
        before = message["role"]
        if before == "assistant":
            asked.text, asked.results, asked.media = "", [], []
        else:
            asked.results.clear()
        for block in message["content"]:
            if "text" in block:
                asked.text += block["text"] + "\n" if before == "user" else ""
            elif "toolUse" in block:
                called.add(block["toolUse"]["toolUseId"])
            elif "toolResult" in block:
                result = block["toolResult"]
                need(result["toolUseId"] in called, f"no toolUse has the id {result['toolUseId']}")
                asked.results.append("".join(part.get("text") or json.dumps(part.get("json")) for part in result["content"]))
            elif "image" in block:
                asked.media.append(media(f"image/{block['image']['format']}", block["image"]["source"]["bytes"]))
            elif "document" in block:
                asked.media.append(media(block["document"]["format"], block["document"]["source"]["bytes"]))
            elif "reasoningContent" in block:
                shown = block["reasoningContent"]["reasoningText"]
                asked.thoughts.append(f"{shown['text']} [{shown.get('signature')}]")
            else:
                need("cachePoint" in block, f"no block is {list(block)}")
    for tool in (body.get("toolConfig") or {}).get("tools", []):
        need(tool["toolSpec"]["inputSchema"]["json"]["type"] == "object", "toolSpec: the schema is no object's")
        asked.tools.append(tool["toolSpec"]["name"])
    form = ((body.get("outputConfig") or {}).get("textFormat") or {}).get("structure", {}).get("jsonSchema")
    asked.schema = json.loads(form["schema"]) if form else None
    asked.text = asked.text.strip()
    return asked


def blocks(turn: Turn) -> list[Json]:
    made: list[Json] = []
    if turn.thought:
        made.append({"reasoningContent": {"reasoningText": {"text": turn.thought, "signature": "seal-of-bedrock"}}})
    if turn.text:
        made.append({"text": turn.text})
    made += [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": json.loads(c.arguments)}} for c in turn.calls]
    return made


def ending(turn: Turn) -> tuple[str, Json]:
    usage = {"inputTokens": READ - CACHED, "cacheReadInputTokens": CACHED, "outputTokens": WRITTEN, "totalTokens": READ + WRITTEN}
    return "tool_use" if turn.calls else "end_turn", {"usage": usage, "metrics": {"latencyMs": 1}}


def whole(_asked: Asked, turn: Turn) -> Json:
    stop, told = ending(turn)
    return {"output": {"message": {"role": "assistant", "content": blocks(turn)}}, "stopReason": stop, **told}


def stream(_asked: Asked, turn: Turn) -> list[bytes]:
    stop, told = ending(turn)
    rows = [frame("messageStart", {"role": "assistant"})]
    for at, block in enumerate(blocks(turn)):
        deltas: list[Json]
        if "toolUse" in block:
            start = {"toolUse": {n: block["toolUse"][n] for n in ("toolUseId", "name")}}
            rows.append(frame("contentBlockStart", {"contentBlockIndex": at, "start": start}))
            arguments = next(call.arguments for call in turn.calls if call.id == block["toolUse"]["toolUseId"])
            deltas = [{"toolUse": {"input": piece}} for piece in cut(arguments)]
        elif "text" in block:
            deltas = [{"text": piece} for piece in turn.pieces]
        else:
            deltas = [{"reasoningContent": {"text": piece}} for piece in cut(turn.thought)]
            deltas.append({"reasoningContent": {"signature": "seal-of-bedrock"}})
        rows += [frame("contentBlockDelta", {"contentBlockIndex": at, "delta": delta}) for delta in deltas]
        rows.append(frame("contentBlockStop", {"contentBlockIndex": at}))
    return [*rows, frame("messageStop", {"stopReason": stop}), frame("metadata", told)]


def frame(name: str, data: Json, kind: str = "event") -> bytes:
    """One message of application/vnd.amazon.eventstream: lengths, headers, payload, checksums."""
    headers = b""
    for key, value in ((f":{kind}-type", name), (":content-type", "application/json"), (":message-type", kind)):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    payload = json.dumps(data).encode()
    head = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = head + struct.pack(">I", crc32(head)) + headers + payload
    return body + struct.pack(">I", crc32(body))


def refuse(status: int, message: str) -> tuple[Json, Json]:
    return {"x-amzn-errortype": KINDS[status]}, {"message": message}


def broken() -> bytes:
    return frame("modelStreamErrorException", {"message": BROKEN}, "exception")
