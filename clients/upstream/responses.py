"""OpenAI's responses."""

from __future__ import annotations

from .chat import refuse  # noqa: F401 (refusals are those of chat)
from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Json, Turn, cut, data_url, named, need


def read(body: Json) -> Asked:
    asked = Asked(body.get("model", ""), bool(body.get("stream")), system=body.get("instructions") or "")
    items = body.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    need(isinstance(items, list) and items, "input: a text or a list that is not empty is needed")
    called: set[str] = set()
    for item in items:
        match item.get("type", "message"):
            case "message" if item["role"] == "user":
                asked.results.clear()
                asked.text += words(asked, item["content"]) + "\n"
            case "message" if item["role"] in ("system", "developer"):
                asked.system += words(asked, item["content"])
            case "message":
                asked.text, asked.results, asked.media = "", [], []
            case "function_call" | "custom_tool_call":
                asked.text, asked.results, asked.media = "", [], []
                called.add(item["call_id"])
            case "function_call_output" | "custom_tool_call_output":
                need(item["call_id"] in called, f"input: no call has the id {item['call_id']}")
                asked.results.append(words(asked, item["output"]))
            case "reasoning":
                shown = "".join(part["text"] for part in item.get("summary", []))
                asked.thoughts.append(f"{shown} [{item.get('encrypted_content')}]")
            case "item_reference":
                # Every answer is kept here, as far as anyone can tell.
                asked.text, asked.results, asked.media = "", [], []
            case kind:
                need(False, f"input: there is no item {kind}")
    asked.tools = [tool["name"] for tool in body.get("tools") or [] if tool["type"] in ("function", "custom")]
    form = (body.get("text") or {}).get("format") or {}
    if form.get("type") == "json_schema":
        asked.schema = form["schema"]
    asked.text = asked.text.strip()
    return asked


def words(asked: Asked, content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list)
    for part in content:
        if part["type"] == "input_image":
            asked.media.append(data_url(part["image_url"]))
        elif part["type"] == "input_file":
            asked.media.append(data_url(part["file_data"]))
    return "\n".join(part["text"] for part in content if "text" in part)


def items(turn: Turn) -> list[Json]:
    made: list[Json] = []
    if turn.thought:
        made.append({"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": turn.thought}],
                     "encrypted_content": "seal-of-openai"})  # fmt: skip
    if turn.text:
        made.append({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text(turn.text)]})
    for call in turn.calls:
        made.append({"id": f"fc_{call.id}", "type": "function_call", "status": "completed", "call_id": call.id,
                     "name": call.name, "arguments": call.arguments})  # fmt: skip
    return made


def text(said: str) -> Json:
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


def whole(asked: Asked, turn: Turn, status: str = "completed") -> Json:
    done = status == "completed"
    usage = {"input_tokens": READ, "input_tokens_details": {"cached_tokens": CACHED}, "output_tokens": WRITTEN,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": READ + WRITTEN}  # fmt: skip
    return {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": status, "error": None,
            "incomplete_details": None, "instructions": None, "metadata": {}, "model": asked.model,
            "output": items(turn) if done else [], "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto",
            "tools": [], "top_p": 1.0, "usage": usage if done else None}  # fmt: skip


def stream(asked: Asked, turn: Turn) -> list[bytes]:
    rows: list[Json] = [{"type": f"response.{kind}", "response": whole(asked, turn, "in_progress")} for kind in ("created", "in_progress")]
    for at, item in enumerate(items(turn)):
        where: Json = {"item_id": item["id"], "output_index": at}
        begun: Json = {"message": {"status": "in_progress", "content": []}, "function_call": {"status": "in_progress", "arguments": ""},
                       "reasoning": {"summary": []}}[item["type"]]  # fmt: skip
        rows.append({"type": "response.output_item.added", "output_index": at, "item": {**item, **begun}})
        if item["type"] == "message":
            place = {**where, "content_index": 0}
            rows.append({"type": "response.content_part.added", **place, "part": text("")})
            rows += [{"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in turn.pieces]
            rows.append({"type": "response.output_text.done", **place, "text": turn.text, "logprobs": []})
            rows.append({"type": "response.content_part.done", **place, "part": text(turn.text)})
        elif item["type"] == "reasoning":
            place = {**where, "summary_index": 0}
            kind = "response.reasoning_summary"
            rows.append({"type": f"{kind}_part.added", **place, "part": {"type": "summary_text", "text": ""}})
            rows += [{"type": f"{kind}_text.delta", **place, "delta": piece} for piece in cut(turn.thought)]
            rows.append({"type": f"{kind}_text.done", **place, "text": turn.thought})
            rows.append({"type": f"{kind}_part.done", **place, "part": {"type": "summary_text", "text": turn.thought}})
        else:
            kind = "response.function_call_arguments"
            rows += [{"type": f"{kind}.delta", **where, "delta": piece} for piece in cut(item["arguments"])]
            rows.append({"type": f"{kind}.done", **where, "name": item["name"], "arguments": item["arguments"]})
        rows.append({"type": "response.output_item.done", "output_index": at, "item": item})
    rows.append({"type": "response.completed", "response": whole(asked, turn)})
    return [named({**row, "sequence_number": at}) for at, row in enumerate(rows)]


def broken() -> bytes:
    return named({"type": "error", "sequence_number": 99, "code": "server_error", "message": BROKEN, "param": None})
