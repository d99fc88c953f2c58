"""The HTTP of all providers: which path is which protocol, whose key is right, what a failing model gets."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import Any
from urllib.parse import unquote

from . import chat, cohere, completions, converse, generate, kept, messages, responses
from .talk import REFUSALS, RETRY_AFTER_S, Asked, Json, Wrong, answer, refusal

VERTEX = r"/v1/projects/clients/locations/us-central1/publishers/google/models/(?P<model>[^:/]+)"
PATHS: list[tuple[str, ModuleType, str]] = [
    (r"/v1/chat/completions|/openai/deployments/(?P<model>[^/]+)/chat/completions", chat, "chat"),
    (r"/v1/embeddings|/openai/deployments/(?P<model>[^/]+)/embeddings|/v1beta/openai/embeddings", chat, "embeddings"),
    (r"/v1/completions", completions, "chat"),
    (r"(/openai)?/v1/responses", responses, "chat"),
    (r"/v1/messages", messages, "chat"),
    (r"/v1/messages/count_tokens", messages, "count"),
    (r"/v1beta/models/(?P<model>[^:/]+):(generateContent|(?P<stream>streamGenerateContent))", generate, "chat"),
    (r"/v1beta/models/(?P<model>[^:/]+):countTokens", generate, "count"),
    (r"/v1beta/models/(?P<model>[^:/]+):(embedContent|batchEmbedContents)", generate, "embeddings"),
    (rf"{VERTEX}:(generateContent|(?P<stream>streamGenerateContent))", generate, "chat"),
    (rf"{VERTEX}:countTokens", generate, "count"),
    (r"/model/(?P<model>[^/]+)/(converse|(?P<stream>converse-stream))", converse, "chat"),
    (r"/v2/chat", cohere, "chat"),
]
# What Vertex grants to the service account, and wants to see.
TOKEN = "ya29.of-vertex"
# Refusals for the sake of a key have another status there.
BEDROCK_CREDENTIAL_STATUS = 403
# Streams of a model that breaks end in their middle.
SAID_BEFORE_BREAKING = 4


class Upstream(ThreadingHTTPServer):
    """All providers, at `url`/NAME, until closed."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.shelves: dict[str, kept.Shelf] = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if self.keeps():
            return
        provider, path = self.place()
        names = [f"{provider}-{n}" for n in ("one", "two")]
        if path.startswith("/v1beta"):
            self.whole(200, {"models": [{"name": f"models/{n}", "supportedGenerationMethods": ["generateContent"]} for n in names]})
        else:
            self.whole(200, {"object": "list", "data": [{"id": n, "object": "model", "created": 1, "owned_by": provider} for n in names]})

    def do_DELETE(self) -> None:
        if not self.keeps():
            self.whole(404, {"error": {"message": "There is no such thing.", "type": "invalid_request_error"}})

    do_PATCH = do_DELETE

    def do_POST(self) -> None:
        raw = self.body()
        if self.keeps(raw):
            return
        provider, path = self.place()
        if path == "/token":
            self.whole(200, {"access_token": TOKEN, "expires_in": 3600, "token_type": "Bearer"})
            return
        for pattern, wire, kind in PATHS:
            if found := re.fullmatch(pattern, path):
                break
        else:
            self.whole(404, {"error": {"message": f"There is nothing at {path}.", "type": "invalid_request_error"}})
            return
        groups = {n: unquote(v) for n, v in found.groupdict().items() if v}
        try:
            self.serve(provider, wire, kind, groups, json.loads(raw))
        except (Wrong, KeyError, TypeError, ValueError) as error:
            headers, body = wire.refuse(400, f"{type(error).__name__}: {error}")
            self.whole(400, body, headers)

    def body(self) -> bytes:
        """With its length, or in chunks: a large one moves through as it comes."""
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        raw = b""
        while size := int(self.rfile.readline(), 16):
            raw += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return raw

    def keeps(self, raw: bytes | None = None) -> bool:
        """Whether that was about something that is kept."""
        provider, _ = self.place()
        shelf = self.server.shelves.setdefault(provider, kept.Shelf(f"{self.server.url}/{provider}"))
        target = self.path.removeprefix(f"/{provider}")
        if self.command == "PATCH":
            raw = self.body()
        answer = shelf.serve(self.command, target, self.headers, raw or b"")
        if answer is not None and not self.key_is_right(provider, chat):
            answer = kept.Answer({"error": {"message": "This key is not valid.", "type": "authentication_error"}}, 401)
        if answer is not None:
            self.told(answer.status, answer.data, answer.headers)
        return answer is not None

    def place(self) -> tuple[str, str]:
        provider, _, path = self.path.split("?")[0].removeprefix("/").partition("/")
        return provider, f"/{path}"

    def serve(self, provider: str, wire: ModuleType, kind: str, groups: dict[str, str], body: Json) -> None:
        model = groups.get("model") or body.get("model", "")
        if not self.key_is_right(provider, wire):
            self.refuse(wire, "credential")
        elif kind == "embeddings":
            self.whole(200, chat.embeddings({"model": model, **body}) if wire is chat else generate.embed(body))
        elif kind == "count":
            self.whole(200, {"input_tokens": 11} if wire is messages else {"totalTokens": 11})
        elif (refused := refusal(model)) is not None:
            self.refuse(wire, refused)
        else:
            asked = wire.read(body)
            asked.model = model
            asked.stream = asked.stream or "stream" in groups
            self.answer(wire, asked)

    def key_is_right(self, provider: str, wire: ModuleType) -> bool:
        if wire is converse:
            return "Credential=AKIAOFBEDROCK/" in self.headers.get("authorization", "")
        shown = [self.headers.get(n) for n in ("x-api-key", "x-goog-api-key", "api-key")]
        shown.append(self.headers.get("authorization", "").removeprefix("Bearer "))
        return [value for value in shown if value] == [TOKEN if provider == "vertex" else f"sk-of-{provider}"]

    def refuse(self, wire: ModuleType, kind: str) -> None:
        status, message = REFUSALS[kind]
        headers, body = wire.refuse(status, message)
        if kind == "limit":
            headers = {**headers, "retry-after": str(RETRY_AFTER_S)}
        if kind == "credential" and wire is converse:
            status = BEDROCK_CREDENTIAL_STATUS
        self.whole(status, body, headers)

    def answer(self, wire: ModuleType, asked: Asked) -> None:
        turn = answer(asked)
        if not asked.stream:
            self.whole(200, wire.whole(asked, turn))
            return
        pieces = wire.stream(asked, turn)
        if asked.model == "breaks":
            pieces = [*pieces[: SAID_BEFORE_BREAKING + 1], wire.broken()]
        elif asked.model == "refuses-late":
            pieces = [wire.broken()]
        kind = "application/vnd.amazon.eventstream" if wire is converse else "text/event-stream"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def whole(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body, ensure_ascii=False).encode()
        self.told(status, data, {"content-type": "application/json", **(headers or {})})

    def told(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Failures are told by the tests."""
