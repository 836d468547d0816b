/** Findings of one session, selected as findings of many are. */
import { assertEquals } from "@std/assert";
import { passesOf } from "../../../cmd/sbx/record/findings.ts";
import type { ListedFinding } from "../../../lib/client/api/mod.ts";

const findings = [
  { severity: "low", timestamp_unix_ms: 1000, decision: { outcome: "allow" } },
  { severity: "high", timestamp_unix_ms: 2000, decision: { outcome: "block" } },
  { severity: "critical", timestamp_unix_ms: 3000 },
] as ListedFinding[];

const listed = (options: Record<string, string>, period = {}) =>
  findings.filter(passesOf({ text: (name) => options[name] }, period)).map(({ severity }) => severity);

Deno.test("severity is the least one, decision the outcome, and a period ends before its end", () => {
  assertEquals(listed({}), ["low", "high", "critical"]);
  assertEquals(listed({ severity: "high" }), ["high", "critical"]);
  assertEquals(listed({ decision: "block" }), ["high"]);
  assertEquals(listed({ severity: "critical", decision: "block" }), []);
  assertEquals(listed({}, { since: 2000 }), ["high", "critical"]);
  assertEquals(listed({}, { since: 1000, until: 3000 }), ["low", "high"]);
});
