/** Texts of bodies in the parts of events: left out of what is scrubbed and recorded, and put back. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { withoutBinaryText, withoutTexts, withTextsOf } from "../../../../lib/session/gate/redact.ts";

const textBody = { state: "text", text: "hello", size: 5 };
const binaryBody = { state: "binary", text: "\0hello", size: 6 };

Deno.test("texts of binary bodies are left out wherever they are, and a part without them stays itself", () => {
  const part = { request: { body: binaryBody, method: "GET" }, response: { body: textBody } };
  assertEquals(withoutBinaryText(part), {
    request: { body: { state: "binary", size: 6 }, method: "GET" },
    response: { body: textBody },
  } as never);
  for (
    const same of [
      { request: { body: textBody } },
      { request: { body: { state: "binary", size: 6 } } },
      { request: { body: undefined }, response: undefined },
      { other: { body: binaryBody } },
      "text",
      undefined,
    ]
  ) assertStrictEquals(withoutBinaryText(same), same);
});

Deno.test("texts of all bodies are left out, and put back into a copy that was scrubbed", () => {
  const part = {
    labels: { a: "1" },
    part: { request: { body: textBody }, response: { body: binaryBody, status: 200 } },
  };
  const without = withoutTexts(part);
  assertEquals(JSON.parse(JSON.stringify(without)), {
    labels: { a: "1" },
    part: {
      request: { body: { state: "text", size: 5 } },
      response: { body: { state: "binary", size: 6 }, status: 200 },
    },
  });
  const scrubbed = { ...without, labels: { a: "[ref]" } };
  assertEquals(withTextsOf(scrubbed, part), { ...part, labels: { a: "[ref]" } });
  const plain = { request: { body: { state: "missing" } } };
  assertStrictEquals(withoutTexts(plain), plain);
  assertStrictEquals(withTextsOf(plain, plain), plain);
});
