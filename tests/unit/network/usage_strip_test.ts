/** Counts taken out of a stream, however it is cut. */
import { assertEquals } from "@std/assert";
import { UsageStrip } from "../../../lib/network/exchange/model_tap.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function strip(text: string, size: number): string {
  const strip = new UsageStrip();
  const bytes = encoder.encode(text);
  let out = "";
  for (let at = 0; at < bytes.length; at += size) {
    out += decoder.decode(strip.push(bytes.subarray(at, at + size)));
  }
  return out + decoder.decode(strip.end());
}

Deno.test("only the event with counts alone is taken out, whatever the stream is cut into", () => {
  for (const end of ["\n\n", "\r\n\r\n"]) {
    const before = `data: {"choices":[{"delta":{"content":"usage"}}],"usage":null}${end}: a comment${end}`;
    const counts = `data: {"choices":[],"usage":{"prompt_tokens":1}}${end}`;
    const after =
      `data: {"choices":[{"delta":{}}],"usage":{"x":1}}${end}data: {"choices":[],"prompt":1}${end}data: [DONE]${end}`;
    for (const size of [1, 2, 3, 7, 64, 10_000]) {
      assertEquals(strip(before + counts + after, size), before + after);
      assertEquals(strip(before + counts.trimEnd(), size), before);
      assertEquals(strip(before + after.trimEnd(), size), before + after.trimEnd());
    }
  }
});

Deno.test("an event longer than any with counts passes as it comes", () => {
  const long = `data: {"choices":[],"usage":{"x":"${"y".repeat(200_000)}"}}\n\n`;
  const counts = `data: {"choices":[],"usage":{}}\n\n`;
  assertEquals(strip(long + counts + "data: 1\n\n", 1000), `${long}data: 1\n\n`);
});
