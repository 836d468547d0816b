/**
 * Policy as the people live with it: a blocked program, a question, rules that change
 * while a VM runs, a full ledger.
 */
import { userInfo } from "node:os";
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";

const RULES = `
[profiles.rules.no-curl]
action = "block"
match = 'process.activity.executable == "curl"'
reason = "curl is not for agents here"
detection_level = "high"

[profiles.rules.ask-rm]
action = "ask"
match = 'process.activity.executable == "rm"'

[profiles.rules.quiet-ls]
action = "rewrite"
match = 'process.activity.executable == "ls"'
rewrite = [{ op = "set", path = "process.activity.command", value = "echo rewritten" }]
`;

Deno.test("policy in a running VM", async (t) => {
  const folder = await Deno.makeTempDir();
  const corp = join(folder, "corp.toml");
  await Deno.writeTextFile(corp, `[corp_rule_files]\nenforcement = "rules.toml"\n`);
  await Deno.writeTextFile(join(folder, "rules.toml"), "");
  const sbx = await Sbx.make({ env: { SBX_CORP_CONFIG: corp } });
  try {
    await sbx.ok("profile", "copy", "code", "mine");
    const profile = join(sbx.home, "profiles/mine/profile.toml");
    await Deno.writeTextFile(profile, await Deno.readTextFile(profile) + RULES);
    await sbx.ok("create", "dev", "--profile", "mine");
    const { id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    const denied = async () => JSON.parse(await sbx.ok("events", "dev", "--denied", "--json")).events;

    await t.step("a blocked program says why in one line and exits with 126", async () => {
      const ran = await sbx.cli("exec", "dev", "--", "curl", "http://x");
      assertEquals([ran.code, ran.stdout], [126, ""]);
      assertMatch(
        ran.stderr,
        /^sbx: blocked by policy: curl is not for agents here \(rule "no-curl"\).*\n$/,
      );
      assertEquals((await sbx.cli("exec", "dev", "--", "echo", "hi")).stdout, "hi\n");
      assertEquals((await sbx.cli("exec", "dev", "--", "ls")).stdout, "rewritten\n");
      const { code, stderr } = await sbx.cli("shell", "dev", "--", "curl", "http://x");
      assert(code !== 0);
      assertStringIncludes(stderr, "curl is not for agents here");
    });

    await t.step("sbx why prints the record; it and the finding are in the ledger", async () => {
      const [event] = await denied();
      const why = await sbx.ok("why", event.common.event_id);
      for (
        const part of ["block", "no-curl", `${profile}:`, 'process.activity.executable = "curl"', "high: "]
      ) {
        assertStringIncludes(why, part);
      }
      const { decision } = JSON.parse(await sbx.ok("why", event.common.event_id, "dev", "--json"));
      assertEquals([decision.rule.id, decision.rule.layer, decision.decision], [
        "no-curl",
        "profile",
        "block",
      ]);
      assertEquals((await sbx.cli("why", "ffffffffffff")).code, 1);
    });

    await t.step("an ask waits for a person, holds nothing else up, and is recorded", async () => {
      const asking = sbx.cli("exec", "dev", "--", "rm", "-f", "/nothing");
      await eventually("it asks", async () => JSON.parse(await sbx.ok("asks", "--json")).asks.length === 1);
      assertEquals((await sbx.cli("exec", "dev", "--", "echo", "meanwhile")).stdout, "meanwhile\n");
      const [{ ask_id, event_id }] = JSON.parse(await sbx.ok("asks", "--json")).asks;
      await sbx.ok("allow", ask_id, "--for", "10m");
      assertEquals((await asking).code, 0);
      assertEquals(
        (await sbx.cli("exec", "dev", "--", "rm", "-f", "/nothing")).code,
        0,
        "the answer still holds",
      );
      const { decision } = JSON.parse(await sbx.ok("why", event_id, "dev", "--json"));
      assertEquals([decision.decision, decision.answered.by.user], ["allow", userInfo().username]);
      assertMatch(decision.answered.by.client, /^sbx\//);
      assertEquals((await sbx.cli("allow", ask_id)).code, 1, "answered already");
    });

    await t.step(
      "an answer saved as a rule is shown with its effect, and holds for these events only",
      async () => {
        const run = (...argv: string[]) => sbx.cli("exec", "dev", "--", "rm", "-f", ...argv);
        const asking = [run("/saved"), run("/saved")];
        await eventually(
          "both ask",
          async () => JSON.parse(await sbx.ok("asks", "--json")).asks.length === 2,
        );
        const [{ ask_id }] = JSON.parse(await sbx.ok("asks", "--json")).asks;
        const shown = await sbx.ok("allow", ask_id, "--save-as-rule");
        assertMatch(
          shown,
          new RegExp(`^${ask_id} allowed: process\\.exec .*, by the changed rules \\(`, "m"),
        );
        assertStringIncludes(shown, "process.activity.argv == [");
        assertStringIncludes(shown, "the linter has no remarks");
        assertMatch(shown, /in this session of \d+ decisions: 2 events from ask to allow/);
        // The rule answers the other ask too.
        assertEquals((await Promise.all(asking)).map(({ code }) => code), [0, 0]);
        assertEquals((await run("/saved")).code, 0);
        assertStringIncludes(await Deno.readTextFile(profile), "argv == [");
        const other = run("/other");
        await eventually("it asks", async () => JSON.parse(await sbx.ok("asks", "--json")).asks.length === 1);
        await sbx.ok("deny", JSON.parse(await sbx.ok("asks", "--json")).asks[0].ask_id);
        assertEquals((await other).code, 126);
      },
    );

    await t.step("an edit of the profile by hand is told, and is put in force by a reload", async () => {
      const edited = await Deno.readTextFile(profile);
      const rule =
        `\n[profiles.rules.no-tac]\naction = "block"\nmatch = 'process.activity.executable == "tac"'\n`;
      await Deno.writeTextFile(profile, edited + rule);
      assertStringIncludes(await sbx.ok("info", "dev"), "its files have changed: sbx policy reload");
      assertEquals((await sbx.cli("exec", "dev", "--", "tac", "/dev/null")).code, 0);
      await sbx.ok("policy", "reload", "dev");
      assertEquals((await sbx.cli("exec", "dev", "--", "tac", "/dev/null")).code, 126);
      assertEquals((await sbx.ok("info", "dev")).includes("its files have changed"), false);
      await Deno.writeTextFile(profile, edited + "\n[profiles.rules.bad]\n");
      assertEquals((await sbx.cli("policy", "reload", "dev")).code, 1);
      assertEquals(
        (await sbx.cli("exec", "dev", "--", "tac", "/dev/null")).code,
        126,
        "the rules before stay",
      );
      await Deno.writeTextFile(profile, edited);
      await sbx.ok("policy", "reload", "dev");
    });

    await t.step("a budget of the profile holds in its running VM, and says so", async () => {
      const before = await Deno.readTextFile(profile);
      await Deno.writeTextFile(profile, before + '\n[budget]\nminutes = 0.0001\non_limit = "block"\n');
      await sbx.ok("policy", "reload", "dev");
      const program = "import urllib.request as u, urllib.error as e\n" +
        "try: u.urlopen('http://203.0.113.1/')\nexcept e.HTTPError as error: print(error.code, error.read().decode())";
      const { stdout } = await sbx.cli("exec", "dev", "--", "python3", "-c", program);
      assertStringIncludes(stdout, "403");
      assertStringIncludes(
        stdout,
        '"id":"budget-minutes","reason":"the budget of 0.0001 minutes is used up"',
      );
      await Deno.writeTextFile(profile, before);
      await sbx.ok("policy", "reload", "dev");
    });

    await t.step(
      "a rule that the API saves holds at once; one that is wrong is refused and changes nothing",
      async () => {
        const path = "/profiles/mine/enforcement/rules/no-env";
        const rule = { action: "block", match: 'process.activity.executable == "env"', reason: "no env" };
        const rules = "/profiles/mine/enforcement/rules";
        const saved = await sbx.api("POST", `${rules}/create`, { rule_id: "no-env", rule });
        assertEquals([saved.status, saved.body.rule.priority], [200, 10]);
        assertEquals((await sbx.cli("exec", "dev", "--", "env")).code, 126);
        const wrong = await sbx.api("PUT", path, { ...rule, match: "process.activity.executible == 'env'" });
        assertEquals([wrong.status, wrong.body.code], [400, "policy.invalid"]);
        assertStringIncludes(wrong.body.error, "executable");
        assertEquals((await sbx.cli("exec", "dev", "--", "env")).code, 126);
        const again = { rule_id: "no-env", rule: { ...rule, action: "allow" } };
        const taken = await sbx.api("POST", `${rules}/create`, again);
        assertEquals([taken.status, taken.body.code], [409, "policy.rule.conflict"]);
        assertEquals((await sbx.cli("exec", "dev", "--", "env")).code, 126, "the block stays");
        assertEquals((await sbx.api("DELETE", path)).status, 200);
        assertEquals((await sbx.cli("exec", "dev", "--", "env")).code, 0);
        const { changes: [last] } = JSON.parse(await sbx.ok("policy", "changes", "mine", "--json"));
        assertEquals([last.what, last.before.reason, last.after], ["delete", "no env", undefined]);
        await sbx.ok("policy", "undo", last.change_id);
        assertEquals((await sbx.cli("exec", "dev", "--", "env")).code, 126, "undone in the running VM");
        assertEquals((await sbx.cli("policy", "undo", last.change_id)).code, 1, "undone already");
        assertEquals((await sbx.api("DELETE", path)).status, 200);
        const own = "/profiles/code/enforcement/rules";
        assertEquals((await sbx.api("PUT", `${own}/x`, rule)).status, 404, "nor one of a built-in profile");
        assertEquals((await sbx.api("POST", `${own}/create`, { rule_id: "no-env", rule })).status, 200);
        assertStringIncludes(await Deno.readTextFile(join(sbx.home, "rules/code.toml")), "no-env");
        assertEquals((await sbx.api("DELETE", `${own}/no-env`)).status, 200);
        assertEquals((await sbx.api("PUT", path, rule)).status, 404, "an edit makes no rule");
      },
    );

    await t.step(
      "corp's rules hold in the running VM; a rule file that is gone leaves them, loudly",
      async () => {
        await Deno.writeTextFile(
          join(folder, "rules.toml"),
          `[corp.rules.no-id]\naction = "block"\nmatch = 'process.activity.executable == "id"'\n`,
        );
        await eventually(
          "corp's rule holds",
          async () => (await sbx.cli("exec", "dev", "--", "id")).code === 126,
        );
        await Deno.remove(join(folder, "rules.toml"));
        await eventually("the loss is told", async () => {
          const { body: { issues } } = await sbx.api("GET", "/status");
          return issues.some((issue: string) => issue.includes("rules.toml") && issue.includes('"dev"'));
        });
        assertEquals((await sbx.cli("exec", "dev", "--", "id")).code, 126, "the last good set stays");
        assertEquals((await sbx.cli("create", "other")).code, 1, "and no VM starts without corp's rules");
        await Deno.writeTextFile(join(folder, "rules.toml"), "");
        await eventually(
          "it is well again",
          async () => (await sbx.cli("exec", "dev", "--", "id")).code === 0,
        );
      },
    );

    await t.step("the record is complete and outlives the VM", async () => {
      await sbx.ok("delete", "dev");
      const events = JSON.parse(await sbx.ok("events", "dev", "--json")).events;
      assert(events.some(({ decision }: { decision: string }) => decision === "block"));
      const contexts = await sbx.api("GET", `/sessions/${id}/policy-contexts?limit=2`);
      assertEquals(contexts.body.contexts[0].schema, "sbx.policy-context-fixture.v1");
      assertEquals(contexts.body.contexts.length, 2);
      assertStringIncludes(await sbx.ok("verify", id), `${events.length} events`);
      const { sessions } = JSON.parse(await sbx.ok("sessions", "--json"));
      assertEquals([sessions[0].id, sessions[0].name, !!sessions[0].ended_at], [id, "dev", true]);
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a full ledger stops what cannot be recorded", async (t) => {
  const sbx = await Sbx.make();
  try {
    await sbx.ok("start");
    const fill = async (name: string) => {
      const events: string[] = [];
      for (let n = 0; n < 60; n++) {
        const { status, body } = await sbx.api("POST", `/vms/${name}/exec`, {
          command: ["true", "x".repeat(100_000)],
        });
        if (status !== 200) return { status, code: body.code, events };
        events.push(body.event_id);
      }
      throw new Error("the ledger never became full");
    };

    await t.step("block: the VM goes on, and nothing runs that the ledger cannot take", async () => {
      await sbx.api("PATCH", "/settings/edit", { "ledger.max_size_mb": 1, "ledger.on_full": "block" });
      await sbx.ok("create", "blocking");
      const { status, code } = await fill("blocking");
      assertEquals([status, code], [503, "ledger.unavailable"]);
      const info = JSON.parse(await sbx.ok("info", "blocking", "--json"));
      assertEquals(info.status, "Running");
      assertStringIncludes(info.last_error, "full");
      await sbx.ok("delete", "blocking");
      assertStringIncludes(await sbx.ok("verify", info.id), "events as recorded");
    });

    await t.step("pause: the VM is paused", async () => {
      await sbx.api("PATCH", "/settings/edit", { "ledger.on_full": "pause" });
      await sbx.ok("create", "pausing");
      // A program that was let go just before stands still with the machine.
      const filling = fill("pausing").catch(() => {});
      await eventually("it is paused", async () => {
        return JSON.parse(await sbx.ok("info", "pausing", "--json")).status === "Paused";
      });
      await sbx.ok("delete", "pausing");
      await filling;
    });
  } finally {
    await sbx.dispose();
  }
});
