/** Messages of a guest's kernel: its cells write what they like beside them. */
import { assertEquals } from "@std/assert";
import { parseMessage } from "../../../cmd/sbx/e2b/kernel/kernel.ts";
import { trafficToken } from "../../../cmd/sbx/e2b/store.ts";

Deno.test("a line of a kernel is a message of a known kind, or nothing", () => {
  assertEquals(parseMessage('{"type":"stdout","text":"a"}'), { type: "stdout", text: "a" });
  assertEquals(parseMessage('{"type":"end_of_execution","more":1}'), "end");
  for (
    const line of ["", "null", "1", "[]", "{", '{"type":"ready","group":2}', '{"type":["end_of_execution"]}']
  ) {
    assertEquals(parseMessage(line), undefined, line);
  }
});

Deno.test("a long line of many values is not parsed, and a long text is shown", () => {
  const line = (value: string) => `{"type":"result","data":${value}}`;
  for (const value of [`[${"{},".repeat(3_000_000)}1]`, "[".repeat(3_000_000) + "]".repeat(3_000_000)]) {
    assertEquals(parseMessage(line(value)), {
      type: "stderr",
      text: "sbx does not show a result of more than 2000000 values\n",
    });
  }
  const text = "a".repeat(3_000_000);
  assertEquals(parseMessage(line(`"${text}"`)), { type: "result", data: text });
});

Deno.test("the token of ports is another one for each sandbox, and not the one of files", async () => {
  const [one, two] = await Promise.all(["a", "b"].map((token) => trafficToken({ token })));
  assertEquals([one.length, one === two, await trafficToken({ token: "a" })], [64, false, one]);
});
