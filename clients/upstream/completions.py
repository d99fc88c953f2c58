"""OpenAI's older completions: a text, and how it goes on."""

from __future__ import annotations

from .chat import CREATED, broken, refuse, usage  # noqa: F401 (errors are those of chat)
from .talk import Asked, Json, Turn, event


def read(body: Json) -> Asked:
    return Asked(body.get("model", ""), bool(body.get("stream")), text=body["prompt"])


def frame(asked: Asked, text: str, reason: str | None) -> Json:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
    return {"id": "cmpl-1", "object": "text_completion", "created": CREATED, "model": asked.model, "choices": [choice]}


def whole(asked: Asked, turn: Turn) -> Json:
    return {**frame(asked, turn.text, "stop"), "usage": usage()}


def stream(asked: Asked, turn: Turn) -> list[bytes]:
    rows = [event(frame(asked, piece, None)) for piece in turn.pieces]
    return [*rows, event(frame(asked, "", "stop")), event({**frame(asked, "", None), "choices": [], "usage": usage()}), event("[DONE]")]
