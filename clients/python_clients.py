"""The Python SDKs, each asked the same things in its own words. What comes back is read from the SDK's own types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import errors as google_errors
from google.genai import types as google
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

from gateway import VIRTUAL_KEY

# The tool of every test: what a client offers, and what it says when the model called it.
TOOL = "weather"
DESCRIPTION = "Tells the weather of a city"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}, "required": ["city"]}
TOLD = "sunny, 21 °C"
PATIENCE_S = 20


@dataclass
class Seen:
    """One answer as an SDK shows it."""

    text: str
    stop: object
    read: int | None
    cached: int | None
    written: int | None
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Failure:
    """An error as an SDK shows it; the status where the exception has one."""

    kind: type[Exception]
    status: int | None
    words: str
    retry_after: str | None


# An SDK's exceptions by HTTP status, and that of an error inside a stream.
Kinds = dict[int, type[Exception]]
OPENAI_KINDS: Kinds = {
    400: openai.BadRequestError, 401: openai.AuthenticationError, 403: openai.PermissionDeniedError,
    404: openai.NotFoundError, 429: openai.RateLimitError, 500: openai.InternalServerError,
}  # fmt: skip


class OpenAI:
    """openai-python: chat completions."""

    stops: tuple[object, object] = ("stop", "tool_calls")
    kinds = OPENAI_KINDS
    broken: type[Exception] = openai.APIError

    def __init__(self, url: str, key: str = VIRTUAL_KEY, prefix: str = "/v1") -> None:
        self.sdk = openai.OpenAI(base_url=url + prefix, api_key=key, max_retries=0, timeout=PATIENCE_S)

    def whole(self, model: str, text: str) -> Seen:
        return self.seen(self.sdk.chat.completions.create(model=model, messages=[{"role": "user", "content": text}]))

    def stream(self, model: str, text: str) -> Seen:
        return self.seen(self.streamed(model, [{"role": "user", "content": text}]))

    def streamed(self, model: str, messages: list[Any], tools: list[Any] | None = None) -> Any:
        more: Any = {"tools": tools} if tools else {}
        usage: Any = {"include_usage": True}
        with self.sdk.chat.completions.stream(model=model, messages=messages, stream_options=usage, **more) as events:
            return events.get_final_completion()

    def tools(self, model: str, text: str, stream: bool) -> tuple[Seen, Seen]:
        function = {"name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA}
        tools: list[Any] = [{"type": "function", "function": function}]
        messages: list[Any] = [{"role": "user", "content": text}]

        def ask() -> Any:
            if stream:
                return self.streamed(model, messages, tools)
            return self.sdk.chat.completions.create(model=model, messages=messages, tools=tools)

        first = ask()
        said = first.choices[0].message
        messages.append(said.to_dict())
        messages += [{"role": "tool", "tool_call_id": call.id, "content": TOLD} for call in said.tool_calls]
        return self.seen(first), self.seen(ask())

    def seen(self, answer: Any) -> Seen:
        choice, usage = answer.choices[0], answer.usage
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in choice.message.tool_calls or []]
        cached = usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens
        return Seen(choice.message.content or "", choice.finish_reason, usage.prompt_tokens, cached, usage.completion_tokens, calls)

    def failure(self, error: Exception) -> Failure:
        assert isinstance(error, openai.APIError | openai.APIStatusError)
        if not isinstance(error, openai.APIStatusError):
            return Failure(type(error), None, error.message, None)
        return Failure(type(error), error.status_code, error.body["message"], error.response.headers.get("retry-after"))  # type: ignore[index]


class AzureOpenAI(OpenAI):
    """openai-python as Azure's users have it: the model is a deployment in the path."""

    def __init__(self, url: str, key: str = VIRTUAL_KEY, prefix: str = "/openai") -> None:
        self.sdk = openai.AzureOpenAI(
            azure_endpoint=url + prefix, api_version="2024-10-21", api_key=key, max_retries=0, timeout=PATIENCE_S
        )


class OpenAIResponses(OpenAI):
    """openai-python: responses."""

    stops = ("completed", "completed")

    def whole(self, model: str, text: str) -> Seen:
        return self.seen(self.sdk.responses.create(model=model, input=text))

    def stream(self, model: str, text: str) -> Seen:
        return self.seen(self.streamed(model, [{"role": "user", "content": text}]))

    def streamed(self, model: str, messages: list[Any], tools: list[Any] | None = None) -> Any:
        with self.sdk.responses.stream(model=model, input=messages, tools=tools or openai.NOT_GIVEN) as events:
            return events.get_final_response()

    def tools(self, model: str, text: str, stream: bool) -> tuple[Seen, Seen]:
        tools: list[Any] = [{"type": "function", "name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA, "strict": False}]
        items: list[Any] = [{"role": "user", "content": text}]

        def ask() -> Any:
            return self.streamed(model, items, tools) if stream else self.sdk.responses.create(model=model, input=items, tools=tools)

        first = ask()
        # `parsed_arguments` is the SDK's own.
        items += [{n: v for n, v in item.to_dict().items() if n != "parsed_arguments"} for item in first.output]
        calls = [item for item in first.output if item.type == "function_call"]
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": TOLD} for call in calls]
        return self.seen(first), self.seen(ask())

    def seen(self, answer: Any) -> Seen:
        calls = [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]
        usage = answer.usage
        cached = usage.input_tokens_details.cached_tokens
        return Seen(answer.output_text, answer.status, usage.input_tokens, cached, usage.output_tokens, calls)


class LangChain:
    """langchain-openai, on chat completions."""

    stops: tuple[object, object] = ("stop", "tool_calls")
    kinds = OPENAI_KINDS
    broken: type[Exception] = openai.APIError
    responses = False
    failure = OpenAI.failure

    def __init__(self, url: str, key: str = VIRTUAL_KEY, prefix: str = "/v1") -> None:
        self.options: dict[str, Any] = {
            "base_url": url + prefix, "api_key": key, "max_retries": 0, "timeout": PATIENCE_S,
            "stream_usage": True, "use_responses_api": self.responses,
        }  # fmt: skip

    def whole(self, model: str, text: str) -> Seen:
        return self.seen(ChatOpenAI(model=model, **self.options).invoke(text))

    def stream(self, model: str, text: str) -> Seen:
        return self.seen(joined(ChatOpenAI(model=model, **self.options).stream(text)))

    def tools(self, model: str, text: str, stream: bool) -> tuple[Seen, Seen]:
        tool = {"type": "function", "function": {"name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA}}
        chat = ChatOpenAI(model=model, **self.options).bind_tools([tool])
        messages: list[Any] = [HumanMessage(text)]

        def ask() -> AIMessage:
            return joined(chat.stream(messages)) if stream else chat.invoke(messages)

        first = ask()
        messages += [first, *(ToolMessage(TOLD, tool_call_id=call["id"]) for call in first.tool_calls)]
        return self.seen(first), self.seen(ask())

    def seen(self, answer: AIMessage) -> Seen:
        usage: Any = answer.usage_metadata
        calls = [(call["name"], call["args"]) for call in answer.tool_calls]
        stop = answer.response_metadata["status" if self.responses else "finish_reason"]
        cached = usage.get("input_token_details", {}).get("cache_read")
        return Seen(str(answer.text), stop, usage["input_tokens"], cached, usage["output_tokens"], calls)


class LangChainResponses(LangChain):
    """langchain-openai, on responses."""

    stops = ("completed", "completed")
    responses = True


def joined(pieces: Iterator[Any]) -> Any:
    whole = next(pieces)
    for piece in pieces:
        whole += piece
    return whole


class Anthropic:
    """anthropic-python."""

    stops: tuple[object, object] = ("end_turn", "tool_use")
    kinds: Kinds = {
        400: anthropic.BadRequestError, 401: anthropic.AuthenticationError, 403: anthropic.PermissionDeniedError,
        404: anthropic.NotFoundError, 429: anthropic.RateLimitError, 500: anthropic.InternalServerError,
    }  # fmt: skip
    broken: type[Exception] = anthropic.APIStatusError

    def __init__(self, url: str, key: str = VIRTUAL_KEY, prefix: str = "/anthropic") -> None:
        self.sdk = anthropic.Anthropic(base_url=url + prefix, api_key=key, max_retries=0, timeout=PATIENCE_S)

    def whole(self, model: str, text: str) -> Seen:
        return self.seen(self.sdk.messages.create(model=model, max_tokens=512, messages=[{"role": "user", "content": text}]))

    def stream(self, model: str, text: str) -> Seen:
        return self.seen(self.streamed({"model": model, "messages": [{"role": "user", "content": text}]}))

    def streamed(self, request: dict[str, Any]) -> Any:
        with self.sdk.messages.stream(max_tokens=512, **request) as events:
            return events.get_final_message()

    def tools(self, model: str, text: str, stream: bool) -> tuple[Seen, Seen]:
        tools: list[Any] = [{"name": TOOL, "description": DESCRIPTION, "input_schema": SCHEMA}]
        messages: list[Any] = [{"role": "user", "content": text}]

        def ask() -> Any:
            request: Any = {"model": model, "messages": messages, "tools": tools}
            return self.streamed(request) if stream else self.sdk.messages.create(max_tokens=512, **request)

        first = ask()
        messages.append({"role": "assistant", "content": first.content})
        results = [{"type": "tool_result", "tool_use_id": b.id, "content": TOLD} for b in first.content if b.type == "tool_use"]
        messages.append({"role": "user", "content": results})
        return self.seen(first), self.seen(ask())

    def seen(self, answer: Any) -> Seen:
        usage = answer.usage
        text = "".join(block.text for block in answer.content if block.type == "text")
        calls = [(block.name, block.input) for block in answer.content if block.type == "tool_use"]
        # Anthropic counts what came from a cache apart.
        cached = usage.cache_read_input_tokens
        return Seen(text, answer.stop_reason, usage.input_tokens + (cached or 0), cached, usage.output_tokens, calls)

    def failure(self, error: Exception) -> Failure:
        assert isinstance(error, anthropic.APIStatusError)
        body: Any = error.body
        assert body["type"] == "error" and body["error"]["type"], body
        return Failure(type(error), error.status_code, body["error"]["message"], error.response.headers.get("retry-after"))


class Google:
    """google-genai."""

    stops: tuple[object, object] = (google.FinishReason.STOP, google.FinishReason.STOP)
    kinds: Kinds = {
        **dict.fromkeys([400, 401, 403, 404, 429], google_errors.ClientError),
        500: google_errors.ServerError,
    }
    broken: type[Exception] = google_errors.APIError

    def __init__(self, url: str, key: str = VIRTUAL_KEY, prefix: str = "/genai") -> None:
        options = google.HttpOptions(base_url=url + prefix, timeout=PATIENCE_S * 1000)
        self.sdk = genai.Client(api_key=key, http_options=options)

    def whole(self, model: str, text: str) -> Seen:
        return self.seen([self.sdk.models.generate_content(model=model, contents=text)])

    def stream(self, model: str, text: str) -> Seen:
        return self.seen(list(self.sdk.models.generate_content_stream(model=model, contents=text)))

    def tools(self, model: str, text: str, stream: bool) -> tuple[Seen, Seen]:
        declared: Any = [{"name": TOOL, "description": DESCRIPTION, "parameters_json_schema": SCHEMA}]
        config = google.GenerateContentConfig(tools=[google.Tool(function_declarations=declared)])
        contents: list[Any] = [google.UserContent(text)]

        def ask() -> list[Any]:
            if stream:
                return list(self.sdk.models.generate_content_stream(model=model, contents=contents, config=config))
            return [self.sdk.models.generate_content(model=model, contents=contents, config=config)]

        first = ask()
        parts = [part for answer in first for part in answer.candidates[0].content.parts or []]
        contents.append(google.ModelContent(parts))
        results = [
            google.Part(function_response=google.FunctionResponse(id=p.function_call.id, name=p.function_call.name, response={"output": TOLD}))
            for p in parts
            if p.function_call
        ]
        contents.append(google.UserContent(results))
        return self.seen(first), self.seen(ask())

    def seen(self, answers: list[Any]) -> Seen:
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or []]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
        usage = answers[-1].usage_metadata
        stop = answers[-1].candidates[0].finish_reason
        return Seen(text, stop, usage.prompt_token_count, usage.cached_content_token_count, usage.candidates_token_count, calls)

    def failure(self, error: Exception) -> Failure:
        assert isinstance(error, google_errors.APIError)
        assert error.status, error
        headers = getattr(error.response, "headers", {})
        return Failure(type(error), error.code, error.message or "", headers.get("retry-after"))


ALL = [OpenAI, AzureOpenAI, OpenAIResponses, LangChain, LangChainResponses, Anthropic, Google]
