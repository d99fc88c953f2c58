// What the matrix leaves out: schemas, images, embeddings, lists of models, and what the SDKs do by themselves.
import assert from "node:assert/strict";
import { test } from "node:test";

import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { embedMany, generateText, jsonSchema, Output } from "ai";

import { anthropic, embedders, openaiChat, sdks, told } from "./clients.mjs";

const filled = { name: "Köln", people: 1087353 };
const fill = `>> fill ${JSON.stringify(filled)}`;
const schema = jsonSchema({
  type: "object",
  properties: { name: { type: "string" }, people: { type: "integer" } },
  required: ["name", "people"],
  additionalProperties: false,
});
// The head of a PNG, as far as anybody looks.
const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, ...new Array(40).fill(0)]).toString("base64");
const abortSignal = () => AbortSignal.timeout(20_000);

for (const [provider, of] of Object.entries(told.models)) {
  const model = `${provider}/${of}`;

  for (const [name, make] of Object.entries(sdks)) {
    test(`${name}: ${provider}: schema`, async () => {
      const options = { model: make(model), prompt: fill, output: Output.object({ schema, name: "city" }) };
      const { output } = await generateText({ ...options, maxRetries: 0, abortSignal: abortSignal() });
      assert.deepEqual(output, filled);
    });

    test(`${name}: ${provider}: image`, async () => {
      const content = [{ type: "text", text: ">> look" }, { type: "image", image: png, mediaType: "image/png" }];
      const options = { model: make(model), messages: [{ role: "user", content }] };
      const { text } = await generateText({ ...options, maxRetries: 0, abortSignal: abortSignal() });
      assert.equal(text, `image/png ${png.length}`);
    });
  }

  test(`Anthropic's SDK: ${provider}: runs tools itself`, async () => {
    const run = async ({ city }) => `sunny in ${city}`;
    const inputSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const weather = betaTool({ name: "weather", description: "Tells the weather", inputSchema, run });
    const messages = [{ role: "user", content: '>> call weather {"city": "Köln"}' }];
    const said = await anthropic.sdk.beta.messages.toolRunner({ model, max_tokens: 512, messages, tools: [weather] });
    assert.equal(said.content[0].text, "The tools said: sunny in Köln");
  });
}

for (const provider of ["openai", "azure", "groq", "gemini"]) {
  const model = `${provider}/${told.models[provider]}`;

  test(`openai-node: ${provider}: embeddings`, async () => {
    const { data } = await openaiChat.sdk.embeddings.create({ model, input: ["a", "bc"] });
    assert.deepEqual(data.map((row) => row.embedding), told.embedded);
  });

  test(`AI SDK: ${provider}: embeddings`, async () => {
    for (const embedder of embedders) {
      const { embeddings } = await embedMany({ model: embedder.embeddingModel(model), values: ["a", "bc"], maxRetries: 0 });
      assert.deepEqual(embeddings, told.embedded);
    }
  });
}

test("models are listed", async () => {
  for (const { sdk } of [openaiChat, anthropic]) {
    const found = [];
    for await (const { id } of sdk.models.list()) found.push(id);
    for (const provider of Object.keys(told.models)) assert.ok(found.includes(`${provider}/breaks`), provider);
  }
});
