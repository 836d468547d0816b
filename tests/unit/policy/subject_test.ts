import { assertEquals } from "@std/assert";
import { subjectLine } from "../../../lib/policy/mod.ts";

Deno.test("the line of a model call has its cost, and says when that is unknown", () => {
  const line = (response: object) =>
    subjectLine({
      common: { event_type: "model.call" },
      model: { request: { provider: "anthropic", model: "m", operation: "messages" }, response },
    });
  const tokens = { status: 200, input_tokens: 3, output_tokens: 4 };
  assertEquals(
    line({ ...tokens, estimated_cost_micros: 4500 }),
    "anthropic m messages → 200 3 + 4 tokens $0.0045",
  );
  assertEquals(line(tokens), "anthropic m messages → 200 3 + 4 tokens at an unknown price");
  assertEquals(line({ status: 529 }), "anthropic m messages → 529");
});
