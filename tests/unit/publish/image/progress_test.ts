import { assert, assertEquals, assertThrows } from "@std/assert";
import { formatBytes, Progress } from "../../../../lib/base/progress/mod.ts";

const STAGES = [{ name: "one", weight: 1 }, { name: "two", weight: 3 }];

function recorded(terminal: boolean) {
  const output = {
    text: "",
    clock: 0,
    terminal,
    write: (part: string) => void (output.text += part),
    now: () => output.clock,
  };
  return output;
}

Deno.test("the share is the weight of the finished stages plus the counted part of the current one", () => {
  const progress = new Progress(STAGES, recorded(false));
  assertEquals(progress.share, 0);
  progress.stage("one");
  assertEquals(progress.share, 0);
  progress.stage("two", 100);
  assertEquals(progress.share, 0.25);
  progress.advance(50);
  assertEquals(progress.share, 0.625);
  progress.advance(500);
  assertEquals(progress.share, 1);
  assertThrows(() => progress.stage("three"), TypeError);
});

Deno.test("a pipe gets one line per stage, and shares of a long stage", () => {
  const output = recorded(false);
  const progress = new Progress(STAGES, output);
  progress.stage("one", 4000);
  progress.advance(1500);
  assertEquals(output.text, "one: 4.0 kB\n");
  output.clock = 10_000;
  progress.advance(600);
  assertEquals(output.text, "one: 4.0 kB\none: 50%\n");
});

Deno.test("a terminal gets a bar on one line, erased at the end", () => {
  const output = recorded(true);
  {
    using progress = new Progress(STAGES, output);
    progress.stage("two", 100);
    output.clock = 12_000;
    progress.stage("two", 100);
  }
  assert(output.text.includes("[######------------------]  25% two 0 B of 100 B (12 s)"), output.text);
  assert(output.text.endsWith("\r\x1b[K"));
  assert(!output.text.includes("\n"));
});

Deno.test("sizes have a unit and three digits", () => {
  assertEquals([0, 999, 1000, 53_243_444, 1.5e9].map(formatBytes), [
    "0 B",
    "999 B",
    "1.0 kB",
    "53.2 MB",
    "1.5 GB",
  ]);
});
