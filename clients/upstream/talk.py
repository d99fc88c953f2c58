"""What is asked of a model and what it answers, in no protocol's words.

Lines of the user's text that begin with `>>` say what the model does:

    >> say TEXT           says it
    >> think TEXT         has thought it before
    >> call NAME {JSON}   calls the tool, if the request has it; each line is one call, all in one turn
    >> fill {JSON}        says it, if a schema for the answer arrived that names the same members; or calls the tool
                          `json` with it, if there is one
    >> look               says what media arrived, as "image/png 70"
    >> recall             says which thoughts and instructions came with the request

Where tools have answered, the model says what they answered; a text without such a line is said back. The model's name
says how it fails:

    refuses-KIND          credential, limit, fault or trouble: with the status and words of its provider
    breaks                says a part of the text, then tells of an error inside the stream
    refuses-late          tells of an error as the stream's first event of any meaning
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

# What every answer costs: read, of it from a cache, written.
READ, CACHED, WRITTEN = 11, 3, 7
# `retry-after` of a refusal for the sake of a limit.
RETRY_AFTER_S = 7

REFUSALS = {
    "credential": (401, "This key is not valid."),
    "limit": (429, "Too many requests in this minute."),
    "fault": (400, "The request cannot be served as it is."),
    "trouble": (500, "Something broke on our side."),
}
# Says a provider inside a stream that broke.
BROKEN = "The model went away."


class Wrong(Exception):
    """A request that no provider of this kind would take."""


@dataclass
class Asked:
    """One request."""

    model: str
    stream: bool = False
    text: str = ""  # the user's words since the last answer
    tools: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)  # of the tools that the last answer called
    schema: Json | None = None
    media: list[str] = field(default_factory=list)
    system: str = ""
    thoughts: list[str] = field(default_factory=list)  # of earlier answers, with their seals


@dataclass
class Call:
    id: str
    name: str
    arguments: str  # JSON


@dataclass
class Turn:
    """One answer."""

    text: str = ""
    thought: str = ""
    calls: list[Call] = field(default_factory=list)

    @property
    def pieces(self) -> list[str]:
        return cut(self.text)


def need(holds: object, message: str) -> None:
    if not holds:
        raise Wrong(message)


def answer(asked: Asked) -> Turn:
    """What the model does about it."""
    if asked.results:
        return Turn(text=f"The tools said: {'; '.join(asked.results)}")
    turn = Turn()
    for verb, rest in re.findall(r"^\s*>> (\w+) ?(.*)$", asked.text, re.M):
        match verb:
            case "say":
                turn.text += rest
            case "think":
                turn.thought += rest
            case "call":
                name, arguments = rest.split(" ", 1)
                if name in asked.tools:
                    turn.calls.append(Call(f"call_{len(turn.calls)}_{name}"[:40], name, arguments))
            case "fill" if "json" in asked.tools:
                # The AI SDK's way to ask models for JSON that it does not know to take schemas.
                turn.calls.append(Call("call_json", "json", rest))
            case "fill":
                wanted = set(json.loads(rest))
                found = set((asked.schema or {}).get("properties", {}))
                turn.text += rest if found == wanted else f"The schema names {sorted(found)}"
            case "look":
                turn.text += ", ".join(asked.media) or "nothing"
            case "recall":
                turn.text += " | ".join([*asked.thoughts, asked.system])
            case _:
                raise Wrong(f"nothing is known of `>> {verb}`")
    if not (turn.text or turn.calls or turn.thought):
        turn.text = asked.text or "nothing was said"
    return turn


def cut(text: str, size: int = 5) -> list[str]:
    """The text as a stream has it."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def refusal(model: str) -> str | None:
    """The kind of refusal that the model's name asks for."""
    kind = model.removeprefix("refuses-")
    return kind if model.startswith("refuses-") and kind in REFUSALS else None


def media(kind: str, data: str) -> str:
    """What `>> look` says of base64."""
    return f"{kind} {len(data)}"


def data_url(url: str) -> str:
    found = re.fullmatch(r"data:([^;]+);base64,(.+)", url)
    return media(found[1], found[2]) if found else f"at {url}"


def event(data: Json | str, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def named(data: Json) -> bytes:
    """One whose name is its type."""
    return event(data, data["type"])
