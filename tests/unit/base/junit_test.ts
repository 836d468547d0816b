import { assertEquals } from "@std/assert";
import { formatJunit } from "../../../lib/base/junit/mod.ts";

Deno.test("a suite counts its failures, and escapes attributes", () => {
  const text = formatJunit({
    name: "a&b",
    className: "f.jsonl",
    durationMs: 1500,
    cases: [
      { name: "passes", durationMs: 2 },
      { name: "has no failure", failure: "" },
      { name: "fails", failure: 'one\n<"two">\u0001' },
    ],
  });
  assertEquals(
    text,
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="a&#38;b" tests="3" failures="1" time="1.5">
  <testcase classname="f.jsonl" name="passes" time="0.002"/>
  <testcase classname="f.jsonl" name="has no failure"/>
  <testcase classname="f.jsonl" name="fails">
    <failure message="one&#10;&#60;&#34;two&#34;&#62;\ufffd"/>
  </testcase>
</testsuite>
`,
  );
});

Deno.test("characters that make a document invalid are replaced, so that one name hides no failure", () => {
  const text = formatJunit({
    ...{ name: "n", className: "c" },
    cases: [{ name: "\ufffe\uffff\ud800 \u{1f600}", failure: "\udc00" }],
  });
  const [, name, failure] = /testcase classname="c" name="([^"]*)"[^]*message="([^"]*)"/.exec(text) ?? [];
  assertEquals([name, failure], ["\ufffd\ufffd\ufffd \u{1f600}", "\ufffd"]);
});
