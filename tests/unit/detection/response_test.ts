/** Answers demanded for a finding: by sbx itself, by the profile, and by corp, which nothing weakens. */
import { assertEquals, assertThrows } from "@std/assert";
import { CorpFile } from "../../../lib/config/corp/schema.ts";
import {
  demandsOf,
  type Hold,
  requireLiftable,
  type ResponseTerms,
} from "../../../lib/detection/response/mod.ts";
import { ResponseTable } from "../../../lib/detection/response/schema.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

const DECOY = { rule_id: "credential-decoy", severity: "critical" };
const OTHER = { rule_id: "exec-nc", severity: "high" };

function demands(terms: ResponseTerms, finding: { rule_id: string; severity: string }) {
  return demandsOf(terms, finding).map(({ action, by }) => `${action} ${by}`).toSorted();
}

Deno.test("a used decoy blocks the network, unless the profile's table names the rule", () => {
  assertEquals(demands({}, DECOY), ["block default"]);
  assertEquals(demands({}, OTHER), []);
  assertEquals(demands({ profile: { rule: { "credential-decoy": [] } } }, DECOY), []);
  assertEquals(demands({ profile: { severity: { high: ["ask"] } } }, DECOY), [
    "ask profile",
    "block default",
  ]);
});

Deno.test("an entry of a severity holds for higher ones, until one of them has its own", () => {
  const profile: ResponseTable = { severity: { medium: ["ask"], critical: ["block"] } };
  assertEquals(demands({ profile }, { ...OTHER, severity: "low" }), []);
  assertEquals(demands({ profile }, { ...OTHER, severity: "medium" }), ["ask profile"]);
  assertEquals(demands({ profile }, OTHER), ["ask profile"]);
  assertEquals(demands({ profile }, { ...OTHER, severity: "critical" }), ["block profile"]);
});

Deno.test("a profile cannot weaken corp, and whatever stands still sends nothing", () => {
  const corp: ResponseTable = { severity: { high: ["pause"] } };
  const profile: ResponseTable = { rule: { "exec-nc": [], "credential-decoy": ["snapshot"] } };
  assertEquals(demands({ corp, profile }, OTHER), ["block corp", "pause corp"]);
  assertEquals(demands({ corp, profile }, DECOY), ["block corp", "pause corp", "snapshot profile"]);
});

Deno.test("a hold of corp is lifted only after corp.toml no longer demands it", () => {
  const cause = { ...OTHER, severity: "high" as const, finding_id: "f", event_id: "e", title: "t" };
  const hold: Hold = { since_unix_ms: 1, notes: [], actions: [{ action: "block", by: "corp", cause }] };
  const error = assertThrows(() => requireLiftable("dev", hold, { severity: { high: ["block"] } }), SbxError);
  assertEquals(error.code, "response.corp");
  requireLiftable("dev", hold, { severity: { high: ["block"] }, rule: { "exec-nc": [] } });
  requireLiftable("dev", hold, undefined);
});

Deno.test("unknown keys, actions and severities are refused", () => {
  for (
    const table of [
      { severities: {} },
      { severity: { fatal: ["block"] } },
      { severity: { high: ["explode"] } },
      { rule: { x: ["block", "block"] } },
      { rule: { x: "block" } },
    ]
  ) {
    assertEquals(ResponseTable.safeParse(table).success, false, JSON.stringify(table));
    assertEquals(CorpFile.safeParse({ detection: { response: table } }).success, false);
  }
  assertEquals(CorpFile.safeParse({ detection: { packs: [] } }).success, false);
  assertEquals(
    CorpFile.safeParse({ detection: { response: { severity: { high: ["ask"] } } } }).success,
    true,
  );
});
