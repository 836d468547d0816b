/**
 * A profile learned from a session that ran: the same programs pass under it,
 * and what deviates is a question.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileNameOf, pathClass } from "../../lib/event/mod.ts";
import { eventually, type Sbx } from "../helper/sbx.ts";
import { git, tool } from "../helper/recording.ts";
import type { Parsed } from "../helper/json.ts";

const SAME = [
  "curl -sS https://site.example/curl",
  "rm -rf /tmp/again && git clone -q https://git.example/repo.git /tmp/again && cat /tmp/again/README",
];

/** Steps for a VM `dev` whose session is recorded. */
export async function learnSteps(t: Deno.TestContext, sbx: Sbx): Promise<void> {
  await t.step("the session of a VM becomes a profile, proved by a replay", async () => {
    const { check, rules, base } = JSON.parse(await sbx.ok("learn", "dev", "--save", "learned", "--json"));
    assertEquals([check.ok, base], [true, "net"]);
    assert(
      rules.every(({ witness_allowed }: { witness_allowed: boolean }) => witness_allowed),
      JSON.stringify(rules),
    );
    assertStringIncludes(await sbx.ok("learn", "--check", "learned", "dev"), "all would pass");
    const { code, stdout } = await sbx.cli("learn", "--check", "locked", "dev");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "ask everything-else");
    assertEquals((await sbx.cli("learn", "dev", "--save", "learned")).code, 1, "it overwrites no profile");
  });

  await t.step("under it the same programs pass, and six deviations are asked about", async () => {
    await sbx.ok("create", "again", "--profile", "learned");
    const sh = (line: string) => sbx.cli("exec", "again", "--timeout", "60", "-c", line);
    for (const line of SAME) assertEquals((await sh(line)).code, 0, line);
    for (const url of ["https://site.example/deviates", "https://evil.example/"]) {
      await sh(`curl -sS --max-time 2 ${url}`);
    }
    const other = sbx.cli("exec", "again", "--", "id");
    let ask = "";
    await eventually("the program is asked about", async () => {
      const { asks } = JSON.parse(await sbx.ok("asks", "--json"));
      ask = asks.find(({ subject }: { subject: string }) => subject.includes("exec id"))?.ask_id ?? "";
      return ask !== "";
    });
    await sbx.ok("deny", ask);
    assertEquals((await other).code, 126);
    const asked = JSON.parse(await sbx.ok("events", "again", "--json")).events
      .filter(({ rule_id }: { rule_id?: string }) => rule_id === "everything-else")
      .map(({ http, dns, process }: Parsed) =>
        http?.request.url ?? dns?.request.qname ?? process.activity.command
      );
    for (const subject of ["https://site.example/deviates", "id"]) {
      assert(asked.includes(subject), `${asked}`);
    }
    assert(asked.some((subject: string) => subject.includes("evil.example")), `${asked}`);
    const path = "/root/.ssh/id_ed25519";
    const activity = {
      operation: "read",
      path,
      path_class: pathClass(path),
      ...fileNameOf(path),
      byte_count: 1,
    };
    for (
      const event of [
        tool("files", "delete"),
        git("git.example", "/repo.git", "refs/heads/main"),
        { schema_version: 1, common: { event_type: "file.activity", actor: "vm" }, file: { activity } },
      ]
    ) {
      const { decision: _, ...context } = event as Record<string, unknown>;
      const { body } = await sbx.api("POST", "/profiles/learned/enforcement/evaluate", { event: context });
      assertEquals([body.decision.decision, body.decision.rule.id], ["ask", "everything-else"]);
    }
  });

  await t.step("the programs of a session are a tree, with the requests of each", async () => {
    const { processes } = JSON.parse(await sbx.ok("tree", "again", "--json"));
    const rows: Parsed[] = processes;
    const started = rows.find(({ command }) => command.includes(SAME[0]));
    assertEquals([started.actor, started.exit_code, started.depth], ["host", 0, 0]);
    const refused = rows.find(({ command }) => command === "id");
    assertEquals([refused.decision, refused.rule_id], ["block", "everything-else"]);
    assert(rows.some(({ executable, events }) => /(^|\/)curl$/.test(executable) && events.http > 0));
    assertStringIncludes(await sbx.ok("tree", "again"), "block everything-else");
    await sbx.ok("delete", "again");
  });
}
