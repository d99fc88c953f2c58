"""What providers keep: files whole, in parts and in pieces, batches, a container, in each vendor's shape.

Batches are over as soon as they are made: each answers its requests with their own texts. What one provider keeps
no other knows.
"""

from __future__ import annotations

import json
import re
import threading
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs

from .talk import Json

AT = "2026-01-01T00:00:00Z"
GRANULARITY = 256 * 1024


class Answer:
    """What is said, as JSON or as bytes."""

    def __init__(self, body: Json | bytes, status: int = 200, headers: dict[str, str] | None = None) -> None:
        is_json = not isinstance(body, bytes)
        self.data = json.dumps(body).encode() if is_json else body
        self.status = status
        self.headers = {"content-type": "application/json" if is_json else "application/octet-stream", **(headers or {})}


class Shelf:
    """Of one provider, at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.lock = threading.Lock()
        self.things: dict[str, Json] = {}
        self.bytes: dict[str, bytes] = {}

    def serve(self, method: str, target: str, headers: Any, raw: bytes) -> Answer | None:
        """None where nothing is kept at that path."""
        path, _, query = target.partition("?")
        vendor = "anthropic" if headers.get("anthropic-version") else "openai"
        for asked, pattern, serve in ROUTES:
            found = re.fullmatch(pattern, f"{vendor} {path}")
            if asked == method and found:
                with self.lock:
                    return self.known(serve, found.groups(), Sent(headers, raw, parse_qs(query)))
        return None

    def known(self, serve: Any, ids: tuple[str, ...], sent: Sent) -> Answer:
        if any(name not in self.things for name in ids):
            return Answer({"type": "error", "error": {"type": "not_found_error", "message": "No such thing.", "code": 404}}, 404)
        said = serve(self, *ids, sent)
        return said if isinstance(said, Answer) else Answer(said)

    def new(self, kind: str, thing: Json, data: bytes = b"") -> Json:
        name = f"{kind}{len(self.things) + 1}"
        self.things[name] = {"id": name, **thing}
        self.bytes[name] = data
        return self.things[name]

    def all(self, kind: str) -> list[Json]:
        return [thing for name, thing in self.things.items() if name.startswith(kind)]

    def show(self, name: str, _: Sent) -> Json:
        return self.things[name]

    def openai_file(self, name: str, purpose: str, data: bytes) -> Json:
        file = {"object": "file", "bytes": len(data), "created_at": 1, "filename": name, "purpose": purpose, "status": "processed"}
        return self.new("file-", file, data)


class Sent:
    def __init__(self, headers: Any, raw: bytes, query: dict[str, list[str]]) -> None:
        self.headers, self.raw, self.query = headers, raw, query

    @property
    def json(self) -> Json:
        body: Json = json.loads(self.raw or b"{}")
        return body

    @property
    def form(self) -> dict[str, tuple[str, bytes]]:
        """Name -> file name and bytes."""
        head = f"content-type: {self.headers['content-type']}\r\n\r\n".encode()
        parts = BytesParser(policy=HTTP).parsebytes(head + self.raw).iter_parts()
        read: dict[str, tuple[str, bytes]] = {}
        for part in parts:
            name = part.get_param("name", header="content-disposition")
            data = part.get_payload(decode=True)
            assert isinstance(data, bytes)
            read[str(name)] = (part.get_filename() or "", data)
        return read


# --- OpenAI -----------------------------------------------------------------------------------------------------------


def openai_upload(shelf: Shelf, sent: Sent) -> Json:
    name, data = sent.form["file"]
    return shelf.openai_file(name, sent.form["purpose"][1].decode(), data)


def openai_list(kind: str) -> Any:
    return lambda shelf, _: {"object": "list", "data": shelf.all(kind), "has_more": False}


def openai_delete(shelf: Shelf, name: str, _: Sent) -> Json:
    del shelf.things[name]
    return {"id": name, "object": "file", "deleted": True}


def openai_batch(shelf: Shelf, sent: Sent) -> Json:
    rows = [json.loads(line) for line in shelf.bytes[sent.json["input_file_id"]].splitlines()]
    answers = [{"custom_id": row["custom_id"], "response": {"status_code": 200, "body": row["body"]}} for row in rows]
    out = shelf.openai_file("out.jsonl", "batch_output", b"".join(json.dumps(row).encode() + b"\n" for row in answers))
    return shelf.new("batch_", {**sent.json, "object": "batch", "created_at": 1, "status": "completed", "output_file_id": out["id"]})


def openai_parts(shelf: Shelf, sent: Sent) -> Json:
    asked = sent.json
    return shelf.new("upload_", {**asked, "object": "upload", "created_at": 1, "expires_at": 9, "status": "pending"})


def openai_part(shelf: Shelf, upload: str, sent: Sent) -> Json:
    return shelf.new("part_", {"object": "upload.part", "created_at": 1, "upload_id": upload}, sent.form["data"][1])


def openai_complete(shelf: Shelf, upload: str, sent: Sent) -> Json:
    begun = shelf.things[upload]
    data = b"".join(shelf.bytes[part] for part in sent.json["part_ids"])
    file = shelf.openai_file(begun["filename"], begun["purpose"], data)
    begun.update(status="completed", file=file)
    return begun


def openai_cancel(shelf: Shelf, name: str, _: Sent) -> Json:
    shelf.things[name]["status"] = "cancelled"
    return shelf.things[name]


def container(shelf: Shelf, sent: Sent) -> Json:
    return shelf.new("cntr_", {**sent.json, "object": "container", "created_at": 1, "status": "running"})


def container_file(shelf: Shelf, box: str, sent: Sent) -> Json:
    name, data = sent.form["file"]
    file = {"object": "container.file", "created_at": 1, "bytes": len(data), "container_id": box, "path": f"/mnt/data/{name}", "source": "user"}
    return shelf.new("cfile_", file, data)


# --- Anthropic --------------------------------------------------------------------------------------------------------


def anthropic_upload(shelf: Shelf, sent: Sent) -> Json:
    name, data = sent.form["file"]
    file = {"type": "file", "filename": name, "mime_type": "text/plain", "size_bytes": len(data), "created_at": AT, "downloadable": True}
    return shelf.new("file_", file, data)


def anthropic_list(kind: str) -> Any:
    def rows(shelf: Shelf, _: Sent) -> Json:
        data = shelf.all(kind)
        return {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}

    return rows


def anthropic_delete(shelf: Shelf, name: str, _: Sent) -> Json:
    kind = shelf.things.pop(name)["type"]
    return {"id": name, "type": f"{kind}_deleted"}


def anthropic_batch(shelf: Shelf, sent: Sent) -> Json:
    rows: list[Json] = []
    for row in sent.json["requests"]:
        text = row["params"]["messages"][0]["content"]
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": row["params"]["model"], "stop_reason": "end_turn",
                   "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        rows.append({"custom_id": row["custom_id"], "result": {"type": "succeeded", "message": message}})
    counts = {"processing": 0, "succeeded": len(rows), "errored": 0, "canceled": 0, "expired": 0}
    batch = shelf.new("msgbatch_", {"type": "message_batch", "processing_status": "ended", "request_counts": counts,
                                    "created_at": AT, "expires_at": AT, "ended_at": AT})  # fmt: skip
    shelf.bytes[batch["id"]] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    batch["results_url"] = f"{shelf.url}/v1/messages/batches/{batch['id']}/results"
    return batch


# --- Google -----------------------------------------------------------------------------------------------------------


def google_upload(shelf: Shelf, sent: Sent) -> Answer:
    """Begins, takes a piece, or takes the last one; the address needs no key at Google either."""
    command = sent.headers["x-goog-upload-command"]
    if command == "start":
        begun = shelf.new("UP", {"mime": sent.headers["x-goog-upload-header-content-type"], "of": int(sent.headers["x-goog-upload-header-content-length"])})
        address = f"{shelf.url}/upload/v1beta/files?upload_id={begun['id']}&upload_protocol=resumable"
        headers = {"x-goog-upload-url": address, "x-goog-upload-status": "active", "x-goog-upload-chunk-granularity": str(GRANULARITY)}
        return Answer({}, headers=headers)
    session = sent.query["upload_id"][0]
    assert int(sent.headers["x-goog-upload-offset"]) == len(shelf.bytes[session])
    shelf.bytes[session] += sent.raw
    if "finalize" not in command:
        return Answer(b"", headers={"x-goog-upload-status": "active"})
    data = shelf.bytes[session]
    assert len(data) == shelf.things[session]["of"]
    return Answer({"file": google_file(shelf, shelf.things[session]["mime"], data)}, headers={"x-goog-upload-status": "final"})


def google_file(shelf: Shelf, mime: str, data: bytes) -> Json:
    file = shelf.new("g-file-", {"mimeType": mime, "sizeBytes": str(len(data)), "state": "ACTIVE", "source": "UPLOADED"}, data)
    name = f"files/{file.pop('id')}"
    file.update(name=name, uri=f"https://generativelanguage.googleapis.com/v1beta/{name}", downloadUri=f"{shelf.url}/v1beta/{name}:download?alt=media")
    return file


def google_gone(shelf: Shelf, name: str, _: Sent) -> Json:
    del shelf.things[name]
    return {}


def google_batch(shelf: Shelf, sent: Sent) -> Json:
    batch = shelf.new("b-", {})
    name = f"batches/{batch.pop('id')}"
    asked = sent.json["batch"]
    state = {"state": "BATCH_STATE_SUCCEEDED", "displayName": asked["displayName"], "model": "models/gemini-2.5-flash"}
    batch.update(name=name, metadata=state, done=True)
    return batch


def google_cache(shelf: Shelf, sent: Sent) -> Json:
    cache = shelf.new("c-", {**sent.json, "createTime": AT, "expireTime": AT})
    cache["name"] = f"cachedContents/{cache.pop('id')}"
    return cache


ID = r"([\w-]+)"
OPENAI = r"openai (?:/openai)?/v1"
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", f"{OPENAI}/files", openai_upload),
    ("GET", f"{OPENAI}/files", openai_list("file-")),
    ("GET", f"{OPENAI}/files/{ID}", Shelf.show),
    ("DELETE", f"{OPENAI}/files/{ID}", openai_delete),
    ("GET", f"{OPENAI}/files/{ID}/content", lambda shelf, name, _: Answer(shelf.bytes[name])),
    ("POST", f"{OPENAI}/batches", openai_batch),
    ("GET", f"{OPENAI}/batches", openai_list("batch_")),
    ("GET", f"{OPENAI}/batches/{ID}", Shelf.show),
    ("POST", f"{OPENAI}/batches/{ID}/cancel", openai_cancel),
    ("POST", f"{OPENAI}/uploads", openai_parts),
    ("POST", f"{OPENAI}/uploads/{ID}/parts", openai_part),
    ("POST", f"{OPENAI}/uploads/{ID}/complete", openai_complete),
    ("POST", f"{OPENAI}/uploads/{ID}/cancel", openai_cancel),
    ("POST", f"{OPENAI}/containers", container),
    ("POST", f"{OPENAI}/containers/{ID}/files", container_file),
    ("GET", f"{OPENAI}/containers/{ID}/files/{ID}/content", lambda shelf, _box, name, _: Answer(shelf.bytes[name])),
    ("POST", "anthropic /v1/files", anthropic_upload),
    ("GET", "anthropic /v1/files", anthropic_list("file_")),
    ("GET", f"anthropic /v1/files/{ID}", Shelf.show),
    ("DELETE", f"anthropic /v1/files/{ID}", anthropic_delete),
    ("GET", f"anthropic /v1/files/{ID}/content", lambda shelf, name, _: Answer(shelf.bytes[name])),
    ("POST", "anthropic /v1/messages/batches", anthropic_batch),
    ("GET", "anthropic /v1/messages/batches", anthropic_list("msgbatch_")),
    ("GET", f"anthropic /v1/messages/batches/{ID}", Shelf.show),
    ("DELETE", f"anthropic /v1/messages/batches/{ID}", anthropic_delete),
    ("GET", f"anthropic /v1/messages/batches/{ID}/results", lambda shelf, name, _: Answer(shelf.bytes[name])),
    ("POST", "openai /upload/v1beta/files", google_upload),
    ("GET", "openai /v1beta/files", lambda shelf, _: {"files": shelf.all("g-file-")}),
    ("GET", f"openai /v1beta/files/{ID}", Shelf.show),
    ("DELETE", f"openai /v1beta/files/{ID}", google_gone),
    ("GET", f"openai /v1beta/files/{ID}:download", lambda shelf, name, _: Answer(shelf.bytes[name])),
    ("POST", r"openai /v1beta/models/[\w.-]+:batchGenerateContent", google_batch),
    ("GET", f"openai /v1beta/batches/{ID}", Shelf.show),
    ("POST", "openai /v1beta/cachedContents", google_cache),
    ("PATCH", f"openai /v1beta/cachedContents/{ID}", Shelf.show),
    ("DELETE", f"openai /v1beta/cachedContents/{ID}", google_gone),
]
