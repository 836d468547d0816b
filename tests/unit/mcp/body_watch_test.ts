/** Limits on the bodies of servers' responses. */
import { assertEquals, assertThrows } from "@std/assert";
import { EVENT_BYTES_MAX } from "../../../lib/mcp/limit.ts";
import { AnswerWatch, StreamWatch } from "../../../lib/mcp/outbound/body_watch.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);

Deno.test("only a response whose first bytes have an event's id may go on in another stream", () => {
  const cases: [name: string, chunks: string[], isResumable: boolean][] = [
    ["an id first", ["id: 1\ndata: {}\n\n"], true],
    ["an id behind another field", ["event: message\nid: 1\n"], true],
    ["half of the field", ["i", "d: 1\n"], true],
    ["no id", ["data: {}\n\n"], false],
    ["an id within a value", ["data: id: 1\n\n"], false],
    ["an id in a later chunk", ["data: {}\n", "id: 1\n\n"], false],
  ];
  for (const [name, chunks, expected] of cases) {
    const ends: [string, boolean][] = [];
    const ended = () => new AnswerWatch((...end) => void ends.push(end));
    const [whole, cut] = [ended(), ended()];
    for (const chunk of chunks) for (const watch of [whole, cut]) watch.chunk(bytesOf(chunk));
    whole.end();
    cut.end(new Error("it was cut"));
    assertEquals(ends, [["the response ended without an answer", expected], ["it was cut", false]], name);
  }
});

Deno.test("an empty line begins the next event of a stream, and each event has its limit", () => {
  // Together they stay below the limit of a second, which would begin a wait.
  const text = "x".repeat(EVENT_BYTES_MAX * 0.6);
  for (const [name, end] of [["LF", "\n\n"], ["CRLF", "\r\n\r\n"]]) {
    const watch = new StreamWatch();
    assertEquals(watch.chunk(bytesOf(text + end)), undefined);
    assertEquals(watch.chunk(bytesOf(`${text}\n`)), undefined);
    assertThrows(() => watch.chunk(bytesOf(text)), TypeError, "an event of the server's stream", name);
  }
});
