/** What programs reach, and the rules that begin with it. */
import { assertEquals } from "@std/assert";
import { flowsOf } from "../../../../cmd/desktop/page/vm/network/flows.ts";
import { allowingOnly, blocking } from "../../../../cmd/desktop/page/vm/timeline/allow.ts";
import { parseRules } from "../../../../lib/policy/author/mod.ts";

Deno.test("requests are added up by program and host, the most bytes first", () => {
  const row = (program: string, host: string | undefined, bytes: number, decision = "allow") => ({
    ...{ id: "", sequence: 0, time: 0, family: "http", type: "", subject: "", rule: "" },
    ...{ program, host, bytes, decision },
  });
  const rows = [
    row("node", "a.example", 10),
    row("curl", "a.example", 7),
    row("node", "b.example", 500, "block"),
    row("node", "a.example", 20, "block"),
    row("node", undefined, 9),
  ];
  assertEquals(flowsOf(rows), [
    { program: "node", host: "b.example", events: 1, blocked: 1, bytes: 500 },
    { program: "node", host: "a.example", events: 2, blocked: 1, bytes: 30 },
    { program: "curl", host: "a.example", events: 1, blocked: 0, bytes: 7 },
  ]);
});

Deno.test("rules about hosts are rules, whatever a host is called", () => {
  for (const { suggested, rule } of [blocking('x"y.example'), allowingOnly(["a.example", "b'.example"])]) {
    const text = `[profiles.rules.${suggested}]\naction = "${rule.action}"\nmatch = ${
      JSON.stringify(rule.match)
    }\n`;
    assertEquals(parseRules(text, "rules.toml").map(({ id }) => id), [suggested]);
  }
});
