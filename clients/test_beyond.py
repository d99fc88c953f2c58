"""What the matrix leaves out: the other routes of the SDKs, media, schemas, reasoning, whose key is right."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as google_errors
from google.genai import types as google
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

from gateway import MODELS, VIRTUAL_KEY, Gateway
from python_clients import TOLD
from upstream.talk import READ

PATIENCE_S = 20
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(40)).decode()
EMBEDDED = [[1.0, 0.5, -1.0], [2.0, 0.5, -1.0]]

each_provider = pytest.mark.parametrize("provider", MODELS)


class City(BaseModel):
    name: str
    people: int


FILLED = City(name="Köln", people=1_087_353)
FILL = f">> fill {FILLED.model_dump_json()}"


@pytest.fixture(scope="session")
def openai_sdk(gateway: Gateway) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=VIRTUAL_KEY, max_retries=0, timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def anthropic_sdk(gateway: Gateway) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", api_key=VIRTUAL_KEY, max_retries=0, timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def google_sdk(gateway: Gateway) -> genai.Client:
    options = google.HttpOptions(base_url=f"{gateway.url}/genai", timeout=PATIENCE_S * 1000)
    return genai.Client(api_key=VIRTUAL_KEY, http_options=options)


# --- schemas --------------------------------------------------------------------------------------------------------


@each_provider
def test_openai_schema(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str) -> None:
    answer = openai_sdk.chat.completions.parse(model=gateway.model(provider), messages=[user(FILL)], response_format=City)
    assert answer.choices[0].message.parsed == FILLED


@each_provider
def test_responses_schema(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str) -> None:
    assert openai_sdk.responses.parse(model=gateway.model(provider), input=FILL, text_format=City).output_parsed == FILLED


@each_provider
def test_anthropic_schema(anthropic_sdk: anthropic.Anthropic, gateway: Gateway, provider: str) -> None:
    model = gateway.model(provider)
    answer = anthropic_sdk.messages.parse(model=model, max_tokens=512, messages=[user(FILL)], output_format=City)
    assert answer.parsed_output == FILLED


@each_provider
def test_google_schema(google_sdk: genai.Client, gateway: Gateway, provider: str) -> None:
    config = google.GenerateContentConfig(response_mime_type="application/json", response_schema=City)
    answer = google_sdk.models.generate_content(model=gateway.model(provider), contents=FILL, config=config)
    assert answer.parsed == FILLED


@each_provider
def test_langchain_schema(gateway: Gateway, provider: str) -> None:
    chat: Any = ChatOpenAI(base_url=f"{gateway.url}/v1", api_key=VIRTUAL_KEY, model=gateway.model(provider), max_retries=0)  # type: ignore[arg-type]
    assert chat.with_structured_output(City, method="json_schema").invoke(FILL) == FILLED


# --- media ----------------------------------------------------------------------------------------------------------


@each_provider
def test_openai_image(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str) -> None:
    image: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    content: Any = [{"type": "text", "text": ">> look"}, image]
    answer = openai_sdk.chat.completions.create(model=gateway.model(provider), messages=[{"role": "user", "content": content}])
    assert answer.choices[0].message.content == f"image/png {len(PNG)}"


@each_provider
def test_responses_image(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    content: Any = [{"type": "input_text", "text": ">> look"}, image]
    answer = openai_sdk.responses.create(model=gateway.model(provider), input=[{"role": "user", "content": content}])
    assert answer.output_text == f"image/png {len(PNG)}"


@each_provider
def test_anthropic_image(anthropic_sdk: anthropic.Anthropic, gateway: Gateway, provider: str) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    content: Any = [{"type": "text", "text": ">> look"}, image]
    message: Any = {"role": "user", "content": content}
    answer = anthropic_sdk.messages.create(model=gateway.model(provider), max_tokens=512, messages=[message])
    assert said(answer) == f"image/png {len(PNG)}"


@each_provider
def test_google_image(google_sdk: genai.Client, gateway: Gateway, provider: str) -> None:
    image = google.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png")
    answer = google_sdk.models.generate_content(model=gateway.model(provider), contents=[">> look", image])
    assert answer.text == f"image/png {len(PNG)}"


@pytest.mark.parametrize("provider", [name for name in MODELS if name != "cohere"])
def test_anthropic_document(anthropic_sdk: anthropic.Anthropic, gateway: Gateway, provider: str) -> None:
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    message: Any = {"role": "user", "content": [{"type": "text", "text": ">> look"}, document]}
    answer = anthropic_sdk.messages.create(model=gateway.model(provider), max_tokens=512, messages=[message])
    assert said(answer) in (f"application/pdf {len(PDF)}", f"pdf {len(PDF)}")


def test_what_a_provider_cannot_take_is_named(anthropic_sdk: anthropic.Anthropic, gateway: Gateway) -> None:
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}
    message: Any = {"role": "user", "content": [document]}
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        anthropic_sdk.messages.create(model=gateway.model("cohere"), max_tokens=512, messages=[message])


# --- reasoning ------------------------------------------------------------------------------------------------------

# Their thoughts have seals, in whichever protocol they are asked.
SEALING = ["anthropic", "gemini", "bedrock", "house", "vertex"]
THINK = ">> think Hm, well.\n>> say Yes."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("provider", SEALING)
def test_anthropic_thoughts(anthropic_sdk: anthropic.Anthropic, gateway: Gateway, provider: str, stream: bool) -> None:
    """A thought and its seal reach the client, and come back to the provider as they were."""
    request: Any = {"model": gateway.model(provider), "max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}}
    turns = [user(THINK)]
    if stream:
        with anthropic_sdk.messages.stream(**request, messages=turns) as events:
            answer: Any = events.get_final_message()
    else:
        answer = anthropic_sdk.messages.create(**request, messages=turns)
    thought = answer.content[0]
    assert (thought.type, thought.thinking, said(answer)) == ("thinking", "Hm, well.", "Yes.")
    turns += [{"role": "assistant", "content": answer.content}, user(">> recall")]
    again = said(anthropic_sdk.messages.create(**request, messages=turns))
    assert "Hm, well." in again and f"[{thought.signature}]" in again


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("provider", ["openai", "azure", *SEALING])
def test_responses_thoughts(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str, stream: bool) -> None:
    request: Any = {"model": gateway.model(provider), "reasoning": {"effort": "medium"}, "include": ["reasoning.encrypted_content"], "store": False}
    items: list[Any] = [user(THINK)]
    if stream:
        with openai_sdk.responses.stream(**request, input=items) as events:
            answer: Any = events.get_final_response()
    else:
        answer = openai_sdk.responses.create(**request, input=items)
    thought = answer.output[0]
    assert (thought.type, thought.summary[0].text, answer.output_text) == ("reasoning", "Hm, well.", "Yes.")
    items += [item.to_dict() for item in answer.output] + [user(">> recall")]
    again = openai_sdk.responses.create(**request, input=items).output_text
    assert "Hm, well." in again and f"[{thought.encrypted_content}]" in again


# --- what SDKs do by themselves -------------------------------------------------------------------------------------


@each_provider
def test_google_calls_functions_itself(google_sdk: genai.Client, gateway: Gateway, provider: str) -> None:
    """Given a Python function, the SDK declares it in Google's own kind of schema, calls it and asks on."""
    asked: list[tuple[str, int]] = []

    def weather(city: str, days: int = 1) -> str:
        """Tells the weather of a city."""
        asked.append((city, days))
        return "sunny"

    config = google.GenerateContentConfig(tools=[weather])
    call = '>> call weather {"city": "Köln", "days": 2}'
    answer = google_sdk.models.generate_content(model=gateway.model(provider), contents=call, config=config)
    assert asked == [("Köln", 2)]
    assert answer.text == "The tools said: sunny"


@each_provider
def test_anthropic_runs_tools_itself(anthropic_sdk: anthropic.Anthropic, gateway: Gateway, provider: str) -> None:
    @anthropic.beta_tool
    def weather(city: str) -> str:
        """Tells the weather of a city."""
        return f"sunny in {city}"

    runner = anthropic_sdk.beta.messages.tool_runner(
        model=gateway.model(provider), max_tokens=512, tools=[weather], messages=[user('>> call weather {"city": "Köln"}')]
    )
    assert said(runner.until_done()) == "The tools said: sunny in Köln"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("provider", [name for name in MODELS if name not in ("openai", "azure")])
def test_tools_that_take_a_text(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str, stream: bool) -> None:
    """As Codex patches files: the provider has functions alone, the client sees its own kind of call."""
    text = '*** Begin "Ü"\n+ a\n'
    tools: Any = [{"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: LINE+"}}]
    items: list[Any] = [user(f">> call patch {json.dumps({'input': text})}")]
    request: Any = {"model": gateway.model(provider), "tools": tools, "store": False}
    if stream:
        with openai_sdk.responses.stream(**request, input=items) as events:
            answer: Any = events.get_final_response()
    else:
        answer = openai_sdk.responses.create(**request, input=items)
    call = answer.output[0]
    assert (call.type, call.name, call.input) == ("custom_tool_call", "patch", text)
    items += [call.to_dict(), {"type": "custom_tool_call_output", "call_id": call.call_id, "output": TOLD}]
    assert openai_sdk.responses.create(**request, input=items).output_text == f"The tools said: {TOLD}"


# --- other routes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "azure", "groq", "gemini"])
@pytest.mark.parametrize("encoding", [openai.omit, "float", "base64"], ids=["default", "float", "base64"])
def test_openai_embeddings(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str, encoding: Any) -> None:
    answer = openai_sdk.embeddings.create(model=gateway.model(provider), input=["a", "bc"], encoding_format=encoding)
    rows = [row.embedding for row in answer.data]
    if encoding == "base64":
        rows = [list(struct.unpack("<3f", base64.b64decode(str(row)))) for row in rows]
    assert rows == EMBEDDED


@pytest.mark.parametrize("provider", ["openai", "azure", "groq", "gemini"])
def test_langchain_embeddings(gateway: Gateway, provider: str) -> None:
    embed: Any = OpenAIEmbeddings(
        base_url=f"{gateway.url}/v1", api_key=VIRTUAL_KEY, model=gateway.model(provider), max_retries=0, check_embedding_ctx_length=False,
    )  # type: ignore[arg-type]  # fmt: skip
    assert embed.embed_documents(["a", "bc"]) == EMBEDDED
    assert embed.embed_query("a") == EMBEDDED[0]


@pytest.mark.parametrize("provider", ["openai", "groq"])
def test_openai_completions(openai_sdk: openai.OpenAI, gateway: Gateway, provider: str) -> None:
    request: Any = {"model": gateway.model(provider), "prompt": ">> say as of old"}
    answer = openai_sdk.completions.create(**request)
    assert (answer.choices[0].text, answer.choices[0].finish_reason) == ("as of old", "stop")
    pieces = list(openai_sdk.completions.create(**request, stream=True))
    assert "".join(piece.choices[0].text for piece in pieces if piece.choices) == "as of old"


def test_google_embeddings(google_sdk: genai.Client, gateway: Gateway) -> None:
    answer = google_sdk.models.embed_content(model="gemini-embedding-001", contents=["a", "bc"])
    assert [row.values for row in answer.embeddings or []] == EMBEDDED


def test_tokens_are_counted_by_the_provider(anthropic_sdk: anthropic.Anthropic, google_sdk: genai.Client, gateway: Gateway) -> None:
    for provider in ("anthropic", "house"):
        counted = anthropic_sdk.messages.count_tokens(model=gateway.model(provider), messages=[user("hi")])
        assert counted.input_tokens == READ
    assert google_sdk.models.count_tokens(model="gemini-2.5-flash", contents="hi").total_tokens == READ


def test_models_are_listed(openai_sdk: openai.OpenAI, anthropic_sdk: anthropic.Anthropic, google_sdk: genai.Client) -> None:
    expected = {f"{provider}/refuses-fault" for provider in MODELS}
    assert expected <= {model.id for model in openai_sdk.models.list()}
    assert expected <= {model.id for model in anthropic_sdk.models.list()}
    # Google's own models go by their bare names there.
    google_names = {f"models/{name}".replace("models/gemini/", "models/") for name in expected}
    assert google_names <= {model.name for model in google_sdk.models.list()}


def test_one_model_is_looked_up(openai_sdk: openai.OpenAI, anthropic_sdk: anthropic.Anthropic, google_sdk: genai.Client) -> None:
    assert openai_sdk.models.retrieve("cohere/breaks").owned_by == "cohere"
    assert anthropic_sdk.models.retrieve("breaks").id == "anthropic/breaks"
    assert google_sdk.models.get(model="openai/breaks").name == "models/openai/breaks"
    with pytest.raises(openai.NotFoundError) as caught:
        openai_sdk.models.retrieve("nobody/knows")
    assert caught.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError):
        anthropic_sdk.models.retrieve("nobody/knows")


# --- whose key ------------------------------------------------------------------------------------------------------


def test_prefixes_take_bare_names(gateway: Gateway) -> None:
    """A prefix stands for its vendor, so that programs keep their models' names."""
    prefixed = openai.OpenAI(base_url=f"{gateway.url}/openai/v1", api_key=VIRTUAL_KEY, max_retries=0)
    assert prefixed.chat.completions.create(model=MODELS["openai"], messages=[user(">> say hi")]).choices[0].message.content == "hi"
    assert prefixed.responses.create(model=MODELS["openai"], input=">> say hi").output_text == "hi"
    azure = openai.AzureOpenAI(azure_endpoint=f"{gateway.url}/openai", api_version="2024-10-21", api_key=VIRTUAL_KEY, max_retries=0)
    assert azure.chat.completions.create(model=MODELS["azure"], messages=[user(">> say hi")]).choices[0].message.content == "hi"
    assert azure.responses.create(model=MODELS["azure"], input=">> say hi").output_text == "hi"
    assert azure.embeddings.create(model=MODELS["azure"], input=["a", "bc"]).data[1].embedding == EMBEDDED[1]
    bearer = anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", auth_token=VIRTUAL_KEY, max_retries=0)
    assert said(bearer.messages.create(model=MODELS["anthropic"], max_tokens=9, messages=[user(">> say hi")])) == "hi"


def test_another_key_is_refused(gateway: Gateway) -> None:
    wrong = "sk-bf-of-nobody"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=wrong).models.list()
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=wrong).responses.create(model="openai/gpt-4o", input="hi")
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=f"{gateway.url}/anthropic", api_key=wrong).messages.create(model="claude-x", max_tokens=9, messages=[user("hi")])
    stranger = genai.Client(api_key=wrong, http_options=google.HttpOptions(base_url=f"{gateway.url}/genai"))
    with pytest.raises(google_errors.ClientError) as caught:
        stranger.models.generate_content(model="gemini-2.5-flash", contents="hi")
    assert (caught.value.code, caught.value.status) == (401, "UNAUTHENTICATED")


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def said(answer: Any) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")
