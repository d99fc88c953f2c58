"""Anthropic's messages."""

from __future__ import annotations

import json

from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Json, Turn, cut, media, named, need

KINDS = {401: "authentication_error", 429: "rate_limit_error", 400: "invalid_request_error", 500: "api_error"}
# Nothing is kept here; Anthropic says so where it cannot keep a conversation.
NO_THREADS = "thread: this request cannot be part of one"


def read(body: Json) -> Asked:
    need(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    need(body.get("messages"), "messages: at least one message is required")
    need("thread" not in body, NO_THREADS)
    asked = Asked(body.get("model", ""), bool(body.get("stream")), system=words(body.get("system") or ""))
    called: set[str] = set()
    for message in body["messages"]:
        need(message["role"] in ("user", "assistant"), f"messages: there is no role {message['role']}")
        content = message["content"]
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        if message["role"] == "assistant":
            asked.text, asked.results, asked.media = "", [], []
        else:
            asked.results.clear()
        for block in blocks:
            match block["type"]:
                case "text":
                    need(block["text"], "messages: text content blocks must be non-empty")
                    asked.text += block["text"] + "\n" if message["role"] == "user" else ""
                case "image" | "document" if block["source"]["type"] == "base64":
                    asked.media.append(media(block["source"]["media_type"], block["source"]["data"]))
                case "image" | "document":
                    asked.media.append(f"at {block['source'].get('url')}")
                case "tool_use":
                    need(isinstance(block["input"], dict), "messages: input must be an object")
                    called.add(block["id"])
                case "tool_result":
                    need(block["tool_use_id"] in called, f"messages: no tool_use has the id {block['tool_use_id']}")
                    asked.results.append(words(block.get("content") or ""))
                case "thinking":
                    asked.thoughts.append(f"{block['thinking']} [{block['signature']}]")
                case "redacted_thinking":
                    asked.thoughts.append(f"[{block['data']}]")
                case kind:
                    need(False, f"messages: there is no block {kind}")
    asked.tools = [tool["name"] for tool in body.get("tools") or []]
    form = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    if form.get("type") == "json_schema":
        asked.schema = form["schema"]
    asked.text = asked.text.strip()
    return asked


def words(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def blocks(turn: Turn) -> list[Json]:
    made: list[Json] = []
    if turn.thought:
        made.append({"type": "thinking", "thinking": turn.thought, "signature": "seal-of-anthropic"})
    if turn.text:
        made.append({"type": "text", "text": turn.text})
    made += [{"type": "tool_use", "id": call.id, "name": call.name, "input": json.loads(call.arguments)} for call in turn.calls]
    return made


def whole(asked: Asked, turn: Turn) -> Json:
    # Here what came from a cache is not part of what was read.
    usage = {"input_tokens": READ - CACHED, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": 0, "output_tokens": WRITTEN}
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": asked.model, "content": blocks(turn),
            "stop_reason": stop(turn), "stop_sequence": None, "usage": usage}  # fmt: skip


def stop(turn: Turn) -> str:
    return "tool_use" if turn.calls else "end_turn"


def stream(asked: Asked, turn: Turn) -> list[bytes]:
    message = whole(asked, turn)
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    rows: list[Json] = [{"type": "message_start", "message": begun}, {"type": "ping"}]
    for at, block in enumerate(message["content"]):
        deltas: list[Json]
        if block["type"] == "text":
            empty = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in turn.pieces]
        elif block["type"] == "thinking":
            empty = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut(turn.thought)]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        else:
            empty = {**block, "input": {}}
            arguments = next(call.arguments for call in turn.calls if call.id == block["id"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *cut(arguments)]]
        rows.append({"type": "content_block_start", "index": at, "content_block": empty})
        rows += [{"type": "content_block_delta", "index": at, "delta": delta} for delta in deltas]
        rows.append({"type": "content_block_stop", "index": at})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    rows.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": WRITTEN}})
    rows.append({"type": "message_stop"})
    return [named(row) for row in rows]


def refuse(status: int, message: str) -> tuple[Json, Json]:
    error: Json = {"type": KINDS[status], "message": message}
    if NO_THREADS in message:
        error["details"] = {"error_code": "thread_unsupported_request", "unsupported": ["tests"]}
    return {"request-id": "req_1"}, {"type": "error", "error": error, "request_id": "req_1"}


def broken() -> bytes:
    return named({"type": "error", "error": {"type": "overloaded_error", "message": BROKEN}})
