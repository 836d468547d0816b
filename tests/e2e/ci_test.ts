/** The script of build servers, as a server runs it (docs/guides/ci.md). */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { setTimeout as delay } from "node:timers/promises";
import { join } from "node:path";
import { limitChild, runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test("scripts/ci.sh leaves what a build server reads, and ends as its program does", async () => {
  const sbx = await Sbx.make({ spare: false });
  const dir = await Deno.makeTempDir();
  try {
    const summary = join(dir, "step_summary");
    const out = join(dir, "out");
    const tests = join(dir, "rules_test.jsonl");
    const when = {
      schema_version: 1,
      common: { event_type: "dns.query" },
      dns: { query: { qname: "a.example" } },
    };
    await Deno.writeTextFile(
      tests,
      JSON.stringify({ name: "wrong", when, then: { decision: "block" } }) + "\n",
    );
    const environment = (command: string) => ({
      PATH: `${fromRoot("bin")}:${Deno.env.get("PATH")}`,
      SBX_CI_COMMAND: command,
    });
    const run = async (command: string, more: Record<string, string> = {}) => {
      const { code, stdout, stderr } = await runChild(fromRoot("scripts/ci.sh"), {
        args: [],
        cwd: dir,
        env: {
          ...sbx.env,
          ...environment(command),
          SBX_CI_OUT: out,
          GITHUB_ACTIONS: "true",
          GITHUB_STEP_SUMMARY: summary,
          ...more,
        },
      });
      const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
      return { code, stdout: text(stdout), stderr: text(stderr) };
    };

    const failed = await run("echo '::warning::of the guest'; exit 3", { SBX_CI_POLICY_TESTS: tests });
    assertEquals(failed.code, 3, failed.stderr);
    const guarded = /^::stop-commands::(\S+)\n::warning::of the guest\n\n::\1::$/m;
    assert(guarded.test(failed.stdout), failed.stdout);
    assertEquals([...Deno.readDirSync(out)].map(({ name }) => name).toSorted(), [
      "certificate.json",
      "findings.json",
      "gl-code-quality-report.json",
      "junit.xml",
      "policy.xml",
      "session.db",
      "summary.md",
    ]);
    const { session, exit_code } = JSON.parse(await Deno.readTextFile(join(out, "findings.json")));
    assertEquals(exit_code, 3);
    assertStringIncludes(await Deno.readTextFile(summary), `| 3 | 0 | 0 | none | \`${session}\` |`);
    const [certificate, record] = ["certificate.json", "session.db"].map((name) => join(out, name));
    assertStringIncludes(await Deno.readTextFile(join(out, "policy.xml")), 'failures="1"');
    assertStringIncludes(await sbx.ok("certify", "--verify", certificate, record), "valid");
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, [], "its VM is gone");

    // Ended by a build server, beside a service that ran before it.
    const service = JSON.parse(await sbx.ok("status", "--json")).service.pid;
    assert(Number.isInteger(service));
    const job = limitChild(
      new Deno.Command(fromRoot("scripts/ci.sh"), {
        cwd: dir,
        env: { ...sbx.env, ...environment("sleep 600"), SBX_CI_OUT: join(dir, "ended") },
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn(),
    );
    while (JSON.parse(await sbx.ok("list", "--json")).vms.length === 0) await delay(200);
    job.kill("SIGTERM");
    assertEquals((await job.status).code, 143);
    assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, [], "its VM is gone");
    assertEquals(JSON.parse(await sbx.ok("status", "--json")).service.pid, service);

    const empty = await run("");
    assertEquals([empty.code, empty.stderr], [
      2,
      "ci.sh: SBX_CI_COMMAND is empty: name the line to run in the VM\n",
    ]);
  } finally {
    await sbx.dispose();
    await Deno.remove(dir, { recursive: true });
  }
});
