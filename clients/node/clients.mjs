// The TypeScript SDKs, each asked the same things in its own words. What comes back is read from the SDK's own types.
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";

/** What all tests are told by the test that runs them: address, key, models, words. */
export const told = JSON.parse(process.env.HOLDLINE_TOLD);

const schema = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city"],
};
const description = "Tells the weather of a city";
const timeout = 20_000;

// An answer is { text, stop, read, cached, written, calls }, an error { status, words, retryAfter }.

const openaiKinds = {
  400: OpenAI.BadRequestError, 401: OpenAI.AuthenticationError, 403: OpenAI.PermissionDeniedError,
  429: OpenAI.RateLimitError, 500: OpenAI.InternalServerError,
};

function openaiSdk() {
  return new OpenAI({ baseURL: `${told.url}/v1`, apiKey: told.key, maxRetries: 0, timeout });
}

function openaiFailure(error) {
  const words = error.error?.message ?? error.message;
  return { status: error.status, words, retryAfter: error.headers?.get("retry-after") ?? null };
}

/** openai-node: chat completions. */
export const openaiChat = {
  stops: ["stop", "tool_calls"],
  kinds: openaiKinds,
  broken: OpenAI.APIError,
  failure: openaiFailure,
  sdk: openaiSdk(),

  async ask(model, messages, stream, tools) {
    const request = { model, messages, ...(tools && { tools }) };
    if (!stream) return this.sdk.chat.completions.create(request);
    const events = this.sdk.chat.completions.stream({ ...request, stream_options: { include_usage: true } });
    return events.finalChatCompletion();
  },

  async text(model, text, stream) {
    return this.seen(await this.ask(model, [{ role: "user", content: text }], stream));
  },

  async tools(model, text, stream) {
    const tools = [{ type: "function", function: { name: told.tool, description, parameters: schema } }];
    const messages = [{ role: "user", content: text }];
    const first = await this.ask(model, messages, stream, tools);
    const said = first.choices[0].message;
    messages.push(said);
    for (const call of said.tool_calls) messages.push({ role: "tool", tool_call_id: call.id, content: told.told });
    return [this.seen(first), this.seen(await this.ask(model, messages, stream, tools))];
  },

  seen({ choices: [choice], usage }) {
    return {
      text: choice.message.content ?? "",
      stop: choice.finish_reason,
      read: usage.prompt_tokens,
      cached: usage.prompt_tokens_details?.cached_tokens,
      written: usage.completion_tokens,
      calls: (choice.message.tool_calls ?? []).map((call) => [call.function.name, JSON.parse(call.function.arguments)]),
    };
  },
};

/** openai-node: responses. */
export const openaiResponses = {
  stops: ["completed", "completed"],
  kinds: openaiKinds,
  broken: OpenAI.APIError,
  failure: openaiFailure,
  sdk: openaiSdk(),

  async ask(model, input, stream, tools) {
    const request = { model, input, ...(tools && { tools }) };
    return stream ? this.sdk.responses.stream(request).finalResponse() : this.sdk.responses.create(request);
  },

  async text(model, text, stream) {
    return this.seen(await this.ask(model, text, stream));
  },

  async tools(model, text, stream) {
    const tools = [{ type: "function", name: told.tool, description, parameters: schema, strict: false }];
    const input = [{ role: "user", content: text }];
    const first = await this.ask(model, input, stream, tools);
    // `parsed_arguments` is the SDK's own.
    for (const { parsed_arguments, ...item } of first.output) input.push(item);
    for (const item of first.output.filter((item) => item.type === "function_call"))
      input.push({ type: "function_call_output", call_id: item.call_id, output: told.told });
    return [this.seen(first), this.seen(await this.ask(model, input, stream, tools))];
  },

  seen({ output, output_text, status, usage }) {
    const calls = output.filter((item) => item.type === "function_call");
    return {
      // Only a whole answer has `output_text`.
      text: output_text ?? output.flatMap((item) => item.content ?? []).map((part) => part.text).join(""),
      stop: status,
      read: usage.input_tokens,
      cached: usage.input_tokens_details.cached_tokens,
      written: usage.output_tokens,
      calls: calls.map((call) => [call.name, JSON.parse(call.arguments)]),
    };
  },
};

/** Anthropic's SDK. */
export const anthropic = {
  stops: ["end_turn", "tool_use"],
  kinds: {
    400: Anthropic.BadRequestError, 401: Anthropic.AuthenticationError, 403: Anthropic.PermissionDeniedError,
    429: Anthropic.RateLimitError, 500: Anthropic.InternalServerError,
  },
  broken: Anthropic.APIError,
  sdk: new Anthropic({ baseURL: `${told.url}/anthropic`, apiKey: told.key, maxRetries: 0, timeout }),

  failure(error) {
    const words = error.error?.error?.message ?? error.message;
    return { status: error.status, words, retryAfter: error.headers?.get("retry-after") ?? null };
  },

  async ask(model, messages, stream, tools) {
    const request = { model, messages, max_tokens: 512, ...(tools && { tools }) };
    return stream ? this.sdk.messages.stream(request).finalMessage() : this.sdk.messages.create(request);
  },

  async text(model, text, stream) {
    return this.seen(await this.ask(model, [{ role: "user", content: text }], stream));
  },

  async tools(model, text, stream) {
    const tools = [{ name: told.tool, description, input_schema: schema }];
    const messages = [{ role: "user", content: text }];
    const first = await this.ask(model, messages, stream, tools);
    messages.push({ role: "assistant", content: first.content });
    const calls = first.content.filter((block) => block.type === "tool_use");
    messages.push({ role: "user", content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: told.told })) });
    return [this.seen(first), this.seen(await this.ask(model, messages, stream, tools))];
  },

  seen({ content, stop_reason, usage }) {
    return {
      text: content.filter((block) => block.type === "text").map((block) => block.text).join(""),
      stop: stop_reason,
      // Anthropic counts what came from a cache apart.
      read: usage.input_tokens + (usage.cache_read_input_tokens ?? 0),
      cached: usage.cache_read_input_tokens,
      written: usage.output_tokens,
      calls: content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]),
    };
  },
};

/** The AI SDK over one of its providers; it runs tools itself. `more`: options for a model. */
function aiSdk(make, more = () => ({})) {
  return {
    stops: ["stop", "tool-calls"],
    kinds: Object.fromEntries([400, 401, 403, 429, 500].map((status) => [status, APICallError])),

    failure(error) {
      // A stream's error is what the provider's part of the SDK made of the event.
      const words = error.data?.error?.message ?? error.error?.message ?? error.message ?? JSON.stringify(error);
      return { status: error.statusCode, words, retryAfter: error.responseHeaders?.["retry-after"] ?? null };
    },

    async steps(options, stream) {
      const request = { ...options, maxRetries: 0, maxOutputTokens: 512, abortSignal: AbortSignal.timeout(timeout) };
      if (!stream) return (await generateText(request)).steps;
      let failure = null;
      const answer = streamText({ ...request, onError: ({ error }) => { failure = error; } });
      await answer.consumeStream();
      if (failure) throw failure;
      return answer.steps;
    },

    async text(model, text, stream) {
      const [only] = await this.steps({ model: make(model), prompt: text }, stream);
      return this.seen(only);
    },

    async tools(model, text, stream) {
      const weather = tool({ description, inputSchema: jsonSchema(schema), execute: async () => told.told });
      const options = { model: make(model), prompt: text, tools: { [told.tool]: weather }, stopWhen: stepCountIs(3), ...more(model) };
      return (await this.steps(options, stream)).map(this.seen);
    },

    seen({ text, finishReason, usage, toolCalls }) {
      return {
        text,
        stop: finishReason,
        read: usage.inputTokens,
        cached: usage.inputTokenDetails?.cacheReadTokens ?? usage.cachedInputTokens,
        written: usage.outputTokens,
        calls: toolCalls.map((call) => [call.toolName, call.input]),
      };
    },
  };
}

const apiKey = told.key;
const openaiProvider = createOpenAI({ baseURL: `${told.url}/v1`, apiKey });
const anthropicProvider = createAnthropic({ baseURL: `${told.url}/anthropic/v1`, apiKey });
const compatible = createOpenAICompatible({ name: "holdline", baseURL: `${told.url}/v1`, apiKey, includeUsage: true, supportsStructuredOutputs: true });

/** The AI SDK's own providers, by the names of the tests. */
export const sdks = {
  "AI SDK, OpenAI responses": openaiProvider,
  "AI SDK, OpenAI chat": openaiProvider.chat,
  "AI SDK, OpenAI-compatible": compatible,
  "AI SDK, Anthropic": anthropicProvider,
};

/** Those of them that embed. */
export const embedders = [openaiProvider, compatible];

/** Refers to earlier texts by their ids unless told that nobody keeps them; only providers of responses do. */
function stored(model) {
  return /^(openai|azure)/.test(model) ? {} : { providerOptions: { openai: { store: false } } };
}

export const all = {
  "openai-node chat": openaiChat,
  "openai-node responses": openaiResponses,
  "Anthropic's SDK": anthropic,
  "AI SDK, OpenAI responses": aiSdk(openaiProvider, stored),
  "AI SDK, OpenAI chat": aiSdk(openaiProvider.chat),
  "AI SDK, OpenAI-compatible": aiSdk(compatible),
  "AI SDK, Anthropic": aiSdk(anthropicProvider),
};
