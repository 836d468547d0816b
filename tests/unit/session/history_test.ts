/** The history of a session is read from its record when its process starts, and unknown where that fails. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { historyOf } from "../../../lib/session/history.ts";
import { contractOf, http, openGate } from "../../helper/session_gate.ts";

const RULES = `[profiles.rules.limit]
action = "block"
match = 'http.request.host == "a.example" && history.count("http.request", "true", "1h") >= 2'
reason = "two an hour"
[profiles.rules.never]
action = "block"
match = 'http.request.host == "b.example"'
reason = "never"
`;

Deno.test("events that went ahead before a restart count, blocked ones do not", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "session.db");
    const { gate, ledger, close } = await openGate(path, contractOf(RULES));
    for (const host of ["a.example", "b.example", "b.example"]) {
      const passage = await gate.decide(http(host));
      if (passage.allowed) passage.finish();
    }
    const policy = compilePolicy(parseRules(RULES, "r.toml"));
    const event = gate.observe(http("a.example"));
    const decide = async (file: string, now?: number) => {
      const history = await historyOf(policy, ledger, file, now);
      return policy.evaluate(event, { history }).decision.decision;
    };
    const first = await decide(path);
    const other = gate.observe(http("c.example"));
    assertEquals([first, other.common.session_id], ["allow", event.common.session_id]);
    assertEquals(await decide(path), "block");
    assertEquals(await decide(join(dir, "missing.db")), "block", "unknown");
    await close();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
