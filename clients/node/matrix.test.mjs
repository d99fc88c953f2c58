// Every TypeScript SDK against every kind of provider.
import assert from "node:assert/strict";
import { test } from "node:test";

import { all, told } from "./clients.mjs";

const say = `>> say ${told.text}`;
const call = (city) => `>> call ${told.tool} {"city": "${city}", "days": 3}`;
const called = (city) => [told.tool, { city, days: 3 }];

async function failing(client, asked) {
  try {
    await asked();
  } catch (error) {
    return { error, ...client.failure(error) };
  }
  assert.fail("nothing failed");
}

for (const [name, client] of Object.entries(all)) {
  for (const [provider, of] of Object.entries(told.models)) {
    const model = `${provider}/${of}`;
    for (const stream of [false, true]) {
      const way = stream ? "stream" : "whole";
      const at = `${name}: ${provider}: ${way}`;

      test(`${at}: text`, async () => {
        const seen = await client.text(model, say, stream);
        const { read, cached, written } = told.usage;
        assert.deepEqual(seen, { text: told.text, stop: client.stops[0], read, cached, written, calls: [] });
      });

      test(`${at}: tools`, async () => {
        const [first, second] = await client.tools(model, `>> say Let me see.\n${call("Köln")}\n${call("Łódź")}`, stream);
        assert.deepEqual([first.text, first.stop], ["Let me see.", client.stops[1]]);
        assert.deepEqual(first.calls, [called("Köln"), called("Łódź")]);
        assert.deepEqual([second.text, second.stop, second.calls], [`The tools said: ${told.told}; ${told.told}`, client.stops[0], []]);
      });

      for (const [kind, [status, words]] of Object.entries(told.refusals)) {
        test(`${at}: ${kind}`, async () => {
          const expected = provider === "bedrock" && kind === "credential" ? 403 : status;
          const failure = await failing(client, () => client.text(`${provider}/refuses-${kind}`, say, stream));
          assert.ok(failure.error instanceof client.kinds[expected], failure.error.name);
          assert.deepEqual([failure.status, failure.words], [expected, words]);
          assert.equal(failure.retryAfter, kind === "limit" ? told.retryAfter : null);
        });
      }
    }

    test(`${name}: ${provider}: a stream that breaks`, async () => {
      const failure = await failing(client, () => client.text(`${provider}/breaks`, say, true));
      assert.match(failure.words, new RegExp(told.broken));
      // The AI SDK passes on what its parts throw.
      if (client.broken) assert.ok(failure.error instanceof client.broken, failure.error.name);
    });

    test(`${name}: ${provider}: a stream that is refused late`, async () => {
      const failure = await failing(client, () => client.text(`${provider}/refuses-late`, say, true));
      assert.ok(failure.error instanceof client.kinds[500], failure.error.name);
      assert.ok(failure.status >= 500, `${failure.status}`);
      assert.match(failure.words, new RegExp(told.broken));
    });
  }
}
