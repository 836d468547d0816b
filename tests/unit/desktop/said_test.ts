/** The end of a conversation, from the recorded body of a request to a model. */
import { assertEquals } from "@std/assert";
import { saidIn } from "../../../cmd/desktop/page/vm/calls/said.ts";

const said = (body: unknown) => saidIn(JSON.stringify(body));

Deno.test("of each provider's requests the last prompt is found, with the answer before it", () => {
  const whole = { answer: "Hello.", prompt: "Mend it.", results: 0 };
  const anthropic = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: [{ type: "text", text: "Hello." }] },
    { role: "user", content: [{ type: "text", text: "Mend it." }] },
  ];
  assertEquals(said({ system: "Be kind.", messages: anthropic }), whole);
  const openai = [{ role: "system", content: "Be kind." }, ...anthropic];
  assertEquals(said({ messages: openai }), whole);
  const responses = [
    { role: "user", content: [{ type: "input_text", text: "Hi" }] },
    { role: "assistant", content: [{ type: "output_text", text: "Hello." }] },
    { role: "user", content: [{ type: "input_text", text: "Mend it." }] },
  ];
  assertEquals(said({ input: responses }), whole);
  const google = [
    { role: "user", parts: [{ text: "Hi" }] },
    { role: "model", parts: [{ text: "Hello." }] },
    { role: "user", parts: [{ text: "Mend it." }] },
  ];
  assertEquals(said({ contents: google }), whole);
  assertEquals(said({ input: "Mend it." }), { prompt: "Mend it.", results: 0 });
});

Deno.test("results of tools are counted, in place of a prompt that is long past", () => {
  const messages = [
    { role: "user", content: "Mend it." },
    {
      role: "assistant",
      content: [{ type: "text", text: "I read it." }, { type: "tool_use", name: "read" }],
    },
    { role: "user", content: [{ type: "tool_result", content: "x" }, { type: "tool_result", content: "y" }] },
  ];
  assertEquals(said({ messages }), { answer: "I read it.", results: 2 });
  const chat = [
    { role: "user", content: "Mend it." },
    { role: "assistant", content: null, tool_calls: [{ id: "1" }] },
    { role: "tool", content: "x" },
  ];
  assertEquals(said({ messages: chat }), { results: 1 });
  const items = [{ role: "user", content: "Mend it." }, { type: "function_call" }, {
    type: "function_call_output",
  }];
  assertEquals(said({ input: items }), { results: 1 });
});

Deno.test("a body that is cut, or of another shape, says nothing", () => {
  assertEquals(saidIn(undefined), undefined);
  assertEquals(saidIn('{"messages":[{"role":"us'), undefined);
  assertEquals(said([1]), undefined);
  assertEquals(said({ messages: 3 }), undefined);
  assertEquals(said({ messages: [3, null, "x"] }), { results: 0 });
  assertEquals(said({ messages: [{ role: "user", content: { text: "x" } }] }), { results: 0 });
});
