"""OpenAI's chat completions; Azure's and those of all that are like OpenAI."""

from __future__ import annotations

import base64
import struct

from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Call, Json, Turn, cut, data_url, event, need

CREATED = 1_700_000_000


def read(body: Json) -> Asked:
    need(isinstance(body.get("messages"), list) and body["messages"], "messages: a list that is not empty is needed")
    asked = Asked(body.get("model", ""), bool(body.get("stream")))
    need(not asked.stream or body.get("stream_options", {}).get("include_usage"), "stream_options: usage was not asked for")
    called: set[str] = set()
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role in ("system", "developer"):
            asked.system += words(content)
        elif role == "user":
            asked.results.clear()
            for part in content if isinstance(content, list) else []:
                if part["type"] == "image_url":
                    asked.media.append(data_url(part["image_url"]["url"]))
                elif part["type"] == "file":
                    asked.media.append(data_url(part["file"]["file_data"]))
            asked.text += words(content) + "\n"
        elif role == "assistant":
            asked.text, asked.results, asked.media = "", [], []
            for call in message.get("tool_calls") or []:
                called.add(call["id"])
        elif role == "tool":
            need(message["tool_call_id"] in called, f"messages: no call has the id {message['tool_call_id']}")
            asked.results.append(words(content))
        else:
            need(False, f"messages: there is no role {role}")
    for tool in body.get("tools") or []:
        need(tool["type"] == "function", "tools: only functions")
        asked.tools.append(tool["function"]["name"])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        asked.schema = form["json_schema"]["schema"]
    asked.text = asked.text.strip()
    return asked


def words(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content if isinstance(content, str) else ""


def finish(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


def usage() -> Json:
    return {"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN,
            "prompt_tokens_details": {"cached_tokens": CACHED}}  # fmt: skip


def call(made: Call) -> Json:
    return {"id": made.id, "type": "function", "function": {"name": made.name, "arguments": made.arguments}}


def whole(asked: Asked, turn: Turn) -> Json:
    message: Json = {"role": "assistant", "content": turn.text or None}
    if turn.thought:
        message["reasoning_content"] = turn.thought
    if turn.calls:
        message["tool_calls"] = [call(made) for made in turn.calls]
    choice = {"index": 0, "message": message, "finish_reason": finish(turn)}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": asked.model, "choices": [choice],
            "usage": usage()}  # fmt: skip


def stream(asked: Asked, turn: Turn) -> list[bytes]:
    def chunk(delta: Json, reason: str | None = None) -> bytes:
        return event(frame(asked, [{"index": 0, "delta": delta, "finish_reason": reason}]))

    rows = [chunk({"role": "assistant", "content": ""})]
    rows += [chunk({"reasoning_content": piece}) for piece in cut(turn.thought)]
    rows += [chunk({"content": piece}) for piece in turn.pieces]
    for at, made in enumerate(turn.calls):
        begun = call(made)
        begun["function"]["arguments"] = ""
        rows.append(chunk({"tool_calls": [{"index": at, **begun}]}))
        rows += [chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in cut(made.arguments)]
    return [*rows, chunk({}, finish(turn)), event({**frame(asked, []), "usage": usage()}), event("[DONE]")]


def frame(asked: Asked, choices: list[Json]) -> Json:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": asked.model, "choices": choices}


def refuse(status: int, message: str) -> tuple[Json, Json]:
    kind, code = {
        401: ("invalid_request_error", "invalid_api_key"),
        429: ("requests", "rate_limit_exceeded"),
        400: ("invalid_request_error", "invalid_value"),
        500: ("server_error", None),
    }[status]
    return {}, {"error": {"message": message, "type": kind, "param": None, "code": code}}


def broken() -> bytes:
    return event({"error": {"message": BROKEN, "type": "server_error", "param": None, "code": None}})


def embeddings(body: Json) -> Json:
    """Each text's vector is the number of its letters, a half and minus one."""
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    rows: list[Json] = []
    for at, text in enumerate(texts):
        vector: object = [float(len(text)), 0.5, -1.0]
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack("<3f", len(text), 0.5, -1.0)).decode()
        rows.append({"object": "embedding", "index": at, "embedding": vector})
    return {"object": "list", "model": body["model"], "data": rows, "usage": {"prompt_tokens": READ, "total_tokens": READ}}
