"""Google's generateContent."""

from __future__ import annotations

import json

from .talk import BROKEN, CACHED, READ, WRITTEN, Asked, Json, Turn, cut, event, media, need

STATUSES = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 400: "INVALID_ARGUMENT", 500: "INTERNAL"}


def read(body: Json) -> Asked:
    need(body.get("contents"), "contents is not specified")
    asked = Asked("")
    for part in (body.get("systemInstruction") or {}).get("parts", []):
        asked.system += part["text"]
    called: list[str] = []
    for content in body["contents"]:
        need(content.get("role", "user") in ("user", "model"), "Please use a valid role: user, model.")
        if content.get("role") == "model":
            asked.text, asked.results, asked.media = "", [], []
        else:
            asked.results.clear()
        for part in content["parts"]:
            if "functionCall" in part:
                called.append(part["functionCall"]["name"])
            elif "functionResponse" in part:
                told = part["functionResponse"]
                need(told["name"] in called, f"no function {told['name']} was called")
                need(isinstance(told["response"], dict), "functionResponse.response is no object")
                asked.results.append(", ".join(str(value) for value in told["response"].values()))
            elif "inlineData" in part:
                data = part["inlineData"]
                # Both ways to write names are known; Google's own SDK mixes them.
                asked.media.append(media(data.get("mimeType") or data["mime_type"], data["data"]))
            elif "fileData" in part:
                data = part["fileData"]
                asked.media.append(f"at {data.get('fileUri') or data['file_uri']}")
            elif part.get("thought"):
                asked.thoughts.append(part["text"])
            elif content.get("role") != "model":
                asked.text += part["text"] + "\n"
            if seal := part.get("thoughtSignature"):
                asked.thoughts.append(f"[{seal}]")
    for tool in body.get("tools") or []:
        asked.tools += [function["name"] for function in tool.get("functionDeclarations", [])]
    config = body.get("generationConfig") or {}
    if config.get("responseMimeType") == "application/json":
        asked.schema = config.get("responseSchema") or config.get("responseJsonSchema")
    asked.text = asked.text.strip()
    return asked


def parts(turn: Turn) -> list[Json]:
    made: list[Json] = [{"text": turn.thought, "thought": True}] if turn.thought else []
    made += [{"text": turn.text}] if turn.text else []
    made += [{"functionCall": {"name": call.name, "args": json.loads(call.arguments)}} for call in turn.calls]
    if turn.thought:
        made[-1 if len(made) == 1 else 1]["thoughtSignature"] = "c2VhbA=="
    return made


def answer(asked: Asked, made: list[Json], last: bool = True) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": made}, "index": 0}
    usage = {"promptTokenCount": READ, "cachedContentTokenCount": CACHED, "candidatesTokenCount": WRITTEN,
             "totalTokenCount": READ + WRITTEN}  # fmt: skip
    if last:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "modelVersion": asked.model, "responseId": "gen-1", **({"usageMetadata": usage} if last else {})}


def whole(asked: Asked, turn: Turn) -> Json:
    return answer(asked, parts(turn))


def stream(asked: Asked, turn: Turn) -> list[bytes]:
    rows: list[Json] = []
    for part in parts(turn):
        said = cut(part["text"]) if "text" in part else [None]
        for at, piece in enumerate(said):
            shown = {**part, "text": piece} if piece is not None else dict(part)
            if at + 1 < len(said):
                shown.pop("thoughtSignature", None)
            rows.append(shown)
    return [event(answer(asked, [row], last=at + 1 == len(rows))) for at, row in enumerate(rows)]


def refuse(status: int, message: str) -> tuple[Json, Json]:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}] if status == 429 else []
    return {}, {"error": {"code": status, "message": message, "status": STATUSES[status], "details": details}}


def broken() -> bytes:
    return event({"error": {"code": 503, "message": BROKEN, "status": "UNAVAILABLE"}})


def embed(body: Json) -> Json:
    """As in `chat.embeddings`."""
    def row(one: Json) -> Json:
        return {"values": [float(len("".join(part["text"] for part in one["content"]["parts"]))), 0.5, -1.0]}

    if "requests" in body:
        return {"embeddings": [row(one) for one in body["requests"]]}
    return {"embedding": row(body)}
