"""Cohere's chat, version 2."""

from __future__ import annotations

from .chat import call, words
from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Json, Turn, cut, data_url, event, named, need


def read(body: Json) -> Asked:
    need(body.get("messages"), "messages must not be empty")
    asked = Asked(body.get("model", ""), bool(body.get("stream")))
    called: set[str] = set()
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        need(role in ("system", "user", "assistant", "tool"), f"there is no role {role}")
        if role == "system":
            asked.system += words(content)
        elif role == "user":
            asked.results.clear()
            asked.text += words(content) + "\n"
            asked.media += [data_url(p["image_url"]["url"]) for p in content if p["type"] == "image_url"] if isinstance(content, list) else []
        elif role == "assistant":
            asked.text, asked.results, asked.media = "", [], []
            called |= {made["id"] for made in message.get("tool_calls") or []}
            asked.thoughts += [message["tool_plan"]] if message.get("tool_plan") else []
        else:
            need(message["tool_call_id"] in called, f"no call has the id {message['tool_call_id']}")
            asked.results.append(result(content))
    asked.tools = [tool["function"]["name"] for tool in body.get("tools") or []]
    form = body.get("response_format") or {}
    asked.schema = form.get("json_schema") or form.get("schema")
    asked.text = asked.text.strip()
    return asked


def result(content: object) -> str:
    if isinstance(content, list):
        return "".join(part["text"] if part["type"] == "text" else str(part["document"]["data"]) for part in content)
    return str(content)


def finish(turn: Turn) -> Json:
    tokens = {"input_tokens": float(READ), "output_tokens": float(WRITTEN)}
    reason = "TOOL_CALL" if turn.calls else "COMPLETE"
    return {"finish_reason": reason, "usage": {"billed_units": tokens, "tokens": tokens, "cached_tokens": float(CACHED)}}


def whole(_asked: Asked, turn: Turn) -> Json:
    message: Json = {"role": "assistant"}
    content: list[Json] = [{"type": "text", "text": turn.text}] if turn.text else []
    if turn.thought and turn.calls:
        message["tool_plan"] = turn.thought
    elif turn.thought:
        content.insert(0, {"type": "thinking", "thinking": turn.thought})
    if content:
        message["content"] = content
    if turn.calls:
        message["tool_calls"] = [call(made) for made in turn.calls]
    return {"id": "c1", "message": message, **finish(turn)}


def stream(_asked: Asked, turn: Turn) -> list[bytes]:
    rows: list[Json] = [{"type": "message-start", "id": "c1", "delta": {"message": {"role": "assistant", "content": [], "tool_calls": []}}}]

    def block(at: int, kind: str, field: str, said: str) -> None:
        begun = {"content": {"type": kind, field: ""}}
        rows.append({"type": "content-start", "index": at, "delta": {"message": begun}})
        rows.extend({"type": "content-delta", "index": at, "delta": {"message": {"content": {field: p}}}} for p in cut(said))
        rows.append({"type": "content-end", "index": at})

    if turn.thought and turn.calls:
        rows += [{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}} for piece in cut(turn.thought)]
    elif turn.thought:
        block(0, "thinking", "thinking", turn.thought)
    if turn.text:
        block(1 if turn.thought else 0, "text", "text", turn.text)
    for at, made in enumerate(turn.calls):
        begun = call(made)
        begun["function"]["arguments"] = ""
        rows.append({"type": "tool-call-start", "index": at, "delta": {"message": {"tool_calls": begun}}})
        pieces = [{"function": {"arguments": piece}} for piece in cut(made.arguments)]
        rows += [{"type": "tool-call-delta", "index": at, "delta": {"message": {"tool_calls": piece}}} for piece in pieces]
        rows.append({"type": "tool-call-end", "index": at})
    rows.append({"type": "message-end", "delta": finish(turn)})
    return [named(row) for row in rows]


def refuse(_status: int, message: str) -> tuple[Json, Json]:
    return {}, {"id": "e1", "message": message}


def broken() -> bytes:
    return event({"message": BROKEN}, "error")
