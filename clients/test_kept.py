"""Files, uploads, batches and what else providers keep, by the SDKs that know them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as google

from gateway import MODELS, VIRTUAL_KEY, Gateway

PATIENCE_S = 20
# More than one piece of google-genai's, and more than the gateway reads at once.
LARGE = bytes(range(251)) * 40_000

openai_like = pytest.mark.parametrize("provider", ["openai", "azure", "groq"])
anthropic_like = pytest.mark.parametrize("provider", ["anthropic", "house"])


def openai_at(gateway: Gateway, provider: str) -> openai.OpenAI:
    named = {"x-model-provider": provider}
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=VIRTUAL_KEY, max_retries=0, timeout=PATIENCE_S, default_headers=named)


def anthropic_at(gateway: Gateway, provider: str) -> anthropic.Anthropic:
    named = {"x-model-provider": provider}
    url = f"{gateway.url}/anthropic"
    return anthropic.Anthropic(base_url=url, api_key=VIRTUAL_KEY, max_retries=0, timeout=PATIENCE_S, default_headers=named)


@pytest.fixture(scope="session")
def google_sdk(gateway: Gateway) -> genai.Client:
    options = google.HttpOptions(base_url=f"{gateway.url}/genai", timeout=PATIENCE_S * 1000)
    return genai.Client(api_key=VIRTUAL_KEY, http_options=options)


@openai_like
def test_openai_files(gateway: Gateway, provider: str) -> None:
    sdk = openai_at(gateway, provider)
    for data in (b"small", LARGE):
        file = sdk.files.create(file=("a.bin", data), purpose="user_data")
        assert (file.filename, file.bytes) == ("a.bin", len(data))
        assert sdk.files.content(file.id).read() == data
        assert file.id in [other.id for other in sdk.files.list()]
        assert sdk.files.delete(file.id).deleted
        with pytest.raises(openai.NotFoundError):
            sdk.files.retrieve(file.id)


@openai_like
def test_openai_batches(gateway: Gateway, provider: str) -> None:
    sdk = openai_at(gateway, provider)
    row = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": MODELS[provider]}}
    asked = sdk.files.create(file=("in.jsonl", json.dumps(row).encode()), purpose="batch")
    batch = sdk.batches.create(input_file_id=asked.id, endpoint="/v1/chat/completions", completion_window="24h")
    assert sdk.batches.retrieve(batch.id).status == "completed"
    assert batch.id in [other.id for other in sdk.batches.list()]
    told = sdk.files.content(str(batch.output_file_id)).text
    assert json.loads(told)["response"]["body"] == row["body"]
    assert sdk.batches.cancel(batch.id).status == "cancelled"


@openai_like
def test_openai_uploads(gateway: Gateway, provider: str, tmp_path: Path) -> None:
    sdk = openai_at(gateway, provider)
    file = tmp_path / "large.bin"
    file.write_bytes(LARGE)
    upload = sdk.uploads.upload_file_chunked(file=file, mime_type="text/plain", purpose="user_data", part_size=3_000_000)
    assert upload.status == "completed" and upload.file
    assert sdk.files.content(upload.file.id).read() == LARGE
    begun = sdk.uploads.create(filename="b", bytes=1, mime_type="text/plain", purpose="user_data")
    assert sdk.uploads.cancel(begun.id).status == "cancelled"


def test_openai_containers(gateway: Gateway) -> None:
    sdk = openai_at(gateway, "openai")
    box = sdk.containers.create(name="box")
    file = sdk.containers.files.create(box.id, file=("a.bin", LARGE))
    assert sdk.containers.files.content.retrieve(file.id, container_id=box.id).read() == LARGE


@anthropic_like
def test_anthropic_files(gateway: Gateway, provider: str) -> None:
    sdk = anthropic_at(gateway, provider)
    file = sdk.beta.files.upload(file=("a.txt", LARGE, "text/plain"))
    assert (file.filename, file.size_bytes) == ("a.txt", len(LARGE))
    assert sdk.beta.files.download(file.id).read() == LARGE
    assert file.id in [other.id for other in sdk.beta.files.list()]
    assert sdk.beta.files.delete(file.id).id == file.id
    with pytest.raises(anthropic.NotFoundError):
        sdk.beta.files.retrieve_metadata(file.id)


@anthropic_like
@pytest.mark.parametrize("beta", [False, True], ids=["plain", "beta"])
def test_anthropic_batches(gateway: Gateway, provider: str, beta: bool) -> None:
    """The SDK fetches the results from an address in the batch: it is the gateway's."""
    sdk = anthropic_at(gateway, provider)
    batches: Any = sdk.beta.messages.batches if beta else sdk.messages.batches
    asked = {"model": MODELS[provider], "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    batch = batches.create(requests=[{"custom_id": "one", "params": asked}])
    assert batches.retrieve(batch.id).results_url.startswith(f"{gateway.url}/")
    rows = list(batches.results(batch.id))
    assert [(row.custom_id, row.result.message.content[0].text) for row in rows] == [("one", "hi")]
    assert batch.id in [other.id for other in batches.list()]
    assert batches.delete(batch.id).id == batch.id


def test_google_files(google_sdk: genai.Client, gateway: Gateway, tmp_path: Path) -> None:
    """The SDK sends the pieces without its key, to the address that the begin was answered with."""
    path = tmp_path / "large.txt"
    path.write_bytes(LARGE)
    uploads: list[tuple[Any, bytes]] = [(path, LARGE), (io.BytesIO(b"small"), b"small")]
    for given, data in uploads:
        file = google_sdk.files.upload(file=given, config=google.UploadFileConfig(mime_type="text/plain"))
        assert (file.size_bytes, file.mime_type) == (len(data), "text/plain")
        assert google_sdk.files.get(name=str(file.name)).uri == file.uri
        assert file.name in [other.name for other in google_sdk.files.list()]
        assert google_sdk.files.download(file=file) == data
        told = google_sdk.models.generate_content(model=MODELS["gemini"], contents=[">> look", file]).text
        assert told == f"at {file.uri}"
        google_sdk.files.delete(name=str(file.name))
        with pytest.raises(genai.errors.ClientError) as caught:
            google_sdk.files.get(name=str(file.name))
        assert caught.value.code == 404


def test_google_batches_and_caches(google_sdk: genai.Client) -> None:
    asked: Any = [{"contents": [{"parts": [{"text": "hi"}], "role": "user"}]}]
    batch = google_sdk.batches.create(model=MODELS["gemini"], src=asked, config={"display_name": "one"})
    assert google_sdk.batches.get(name=str(batch.name)).display_name == "one"
    cache = google_sdk.caches.create(model=MODELS["gemini"], config={"contents": "many words", "ttl": "60s"})
    assert str(cache.name).startswith("cachedContents/")
