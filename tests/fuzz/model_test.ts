/** Model calls from damaged and random bytes: no exceptions, bounded size, valid events. Seeds are fixed. */
import { assert, assertEquals } from "@std/assert";
import { Model } from "../../lib/event/schema.ts";
import { encode, identity, matchCall } from "../helper/model_call.ts";
import { WIRE } from "../helper/model_wire.ts";
import { Random } from "../helper/random.ts";

const ROUNDS = 3000;

/** Random JSON with keys of model APIs and values of any type. */
function randomJson(random: Random, depth = 0): unknown {
  const keys = [
    "type",
    "message",
    "usage",
    "content",
    "choices",
    "delta",
    "tool_calls",
    "function",
    "arguments",
    "index",
    "model",
    "messages",
    "tools",
    "input",
    "output",
    "response",
    "item",
    "candidates",
    "parts",
    "functionCall",
    "usageMetadata",
    "input_tokens",
    "prompt_tokens",
    "done",
    "error",
    "stream",
    "contents",
    "__proto__",
    "constructor",
    "toString",
    "id",
    "name",
    "content_block",
    "partial_json",
    "object",
    "status",
    "incomplete_details",
    "prompt_tokens_details",
  ];
  const words = [
    "message",
    "message_start",
    "content_block_start",
    "tool_use",
    "response",
    "response.completed",
    "x",
    "",
  ];
  switch (random.below(depth > 5 ? 5 : 8)) {
    case 0:
      return random.pick([null, true, false]);
    case 1:
      return random.pick([0, -1, 1.5, 1e308, 2 ** 53, random.next()]);
    case 2:
    case 3:
      return random.pick(words);
    case 4:
      return "\u0000\ud800" + random.next();
    case 5:
      return Array.from({ length: random.below(4) }, () => randomJson(random, depth + 1));
    default:
      return Object.fromEntries(
        Array.from({ length: random.below(6) }, () => [random.pick(keys), randomJson(random, depth + 1)]),
      );
  }
}

Deno.test("damaged responses never throw and give valid events", () => {
  const random = new Random(20260801);
  for (let round = 0; round < ROUNDS; round++) {
    const sample = random.pick(WIRE);
    const call = matchCall({ host: sample.host, path: sample.path })!;
    const draft = call.request(encode(JSON.stringify(sample.request)), undefined, identity)!.draft;
    call.head(sample.status, [["content-type", sample.content_type]]);
    const bytes = typeof sample.response === "string" ? encode(sample.response) : sample.response;
    for (let damage = random.below(4); damage > 0; damage--) {
      bytes[random.below(bytes.length)] = random.below(256);
    }
    for (let at = 0; at < bytes.length;) {
      call.chunk(bytes.slice(at, at += 1 + random.below(200)));
      if (random.below(40) === 0) break;
    }
    const response = call.end(random.below(3) ? undefined : "reset");
    Model.parse({ request: draft.model!.request, response });
  }
});

Deno.test("random requests and responses of every API never throw and give valid events", () => {
  const random = new Random(20260802);
  for (let round = 0; round < ROUNDS; round++) {
    const sample = random.pick(WIRE);
    const call = matchCall({ host: sample.host, path: sample.path })!;
    const request = random.below(3)
      ? { ...sample.request as object, ...randomJson(random) as object }
      : randomJson(random);
    const body = encode(JSON.stringify(request) ?? "");
    const draft = call.request(body, random.below(5) > 0 ? undefined : "it is cut", identity)?.draft;
    call.head(200, [["content-type", sample.content_type]]);
    for (let count = random.below(5); count > 0; count--) {
      const value = JSON.stringify(randomJson(random));
      const framed = sample.content_type.includes("event") ? `data: ${value}\n\n` : `${value}\n`;
      call.chunk(encode(framed));
    }
    const response = call.end();
    assertEquals(response === undefined, draft === undefined);
    if (draft) Model.parse({ request: draft.model!.request, response });
    assert(({} as Record<string, unknown>).polluted === undefined);
  }
});

Deno.test("random bytes as a response in every framing never throw", () => {
  const random = new Random(20260803);
  for (let round = 0; round < ROUNDS; round++) {
    const sample = random.pick(WIRE);
    const call = matchCall({ host: sample.host, path: sample.path })!;
    call.request(encode(JSON.stringify(sample.request)), undefined, identity);
    call.head(random.below(1000), [[
      "content-type",
      random.pick(["text/event-stream", "application/x-ndjson", "", "*"]),
    ]]);
    for (let count = random.below(6); count > 0; count--) call.chunk(random.bytes(random.below(80)));
    Model.shape.response.parse(call.end());
  }
});
