/**
 * A real VM as a security team has it: observed, in a feed to a collector, and held back after findings as
 * its profile demands, until a person lifts that.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { SyslogReceiver } from "../helper/syslog_receiver.ts";
import { TestUpstreams } from "../helper/upstream.ts";
import { corpOf, KNOWN, requireFed, UNKNOWN, watchedSteps, WATCHING } from "./watched_steps.ts";

const SECRET = "sk-ant-api03-heldSECRETheldSECRETheldSECRET0123456789";
/** Part of the secret that no record or log may contain. */
const SHOWN = SECRET.slice(8);
/** Answer to a request for the path of each name. */
const ANSWERS = {
  ask: ["ask"],
  block: ["block"],
  pause: ["snapshot", "pause"],
  suspend: ["snapshot", "suspend"],
};
type Trigger = keyof typeof ANSWERS;
const TRIGGERS = Object.keys(ANSWERS) as Trigger[];
const idOf = (trigger: Trigger) => `5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7a0${TRIGGERS.indexOf(trigger)}`;
/** A rule in the form of public ones for each trigger. */
const SIGMA = TRIGGERS.map((trigger) =>
  `title: Request That Holds The VM Back By ${trigger}
id: ${idOf(trigger)}
logsource: { category: proxy }
detection:
  selection:
    c-uri|endswith: /${trigger}
  condition: selection
level: high
`
).join("---\n");
const RESPONSE = `
[detection.response.rule]
${TRIGGERS.map((trigger) => `"${idOf(trigger)}" = ${JSON.stringify(ANSWERS[trigger])}`).join("\n")}
`;

Deno.test("a VM is observed, fed to a collector, and held back after findings", async (t) => {
  await using receiver = await SyslogReceiver.make("rsyslog");
  await receiver.start();
  const corp = await Deno.makeTempFile({ suffix: ".toml" });
  await Deno.writeTextFile(corp, corpOf(receiver));
  const world = await TestUpstreams.make(
    [KNOWN, UNKNOWN],
    (request) => Response.json({ path: new URL(request.url).pathname }),
  );
  const sbx = await Sbx.make({ spare: false, env: { SBX_CORP_CONFIG: corp } });
  const info = async () => JSON.parse(await sbx.ok("info", "dev", "--json"));
  const request = (url: string, more = "") =>
    sbx.cli("exec", "dev", "--timeout", "60", "-c", `curl -sS ${url} ${more}`);
  const curl = (path: string) => request(`https://${KNOWN}/${path}`, '-H "x-api-key: $ANTHROPIC_API_KEY"');
  const goesOut = async (path: string) =>
    assertEquals(JSON.parse((await curl(path)).stdout || "{}").path, `/${path}`);
  const refused = async (...words: string[]) => {
    const { code, stderr } = await sbx.cli(...words);
    assert(code !== 0, words.join(" "));
    assertStringIncludes(stderr, "sbx lift dev", words.join(" "));
  };
  const actions = async () =>
    (await info()).response.actions.map(({ action }: { action: string }) => action).toSorted();
  /** The service is killed; the next command starts another one. */
  const killService = async () => {
    const pid = Number(sbx.read("run/service.pid"));
    Deno.kill(pid, "SIGKILL");
    await eventually("it has ended", () => !isAlive(pid));
  };
  /** The snapshot that a finding has made. */
  const keptBy = async (note: string) => {
    const { snapshots } = JSON.parse(await sbx.ok("snapshots", "list", "dev", "--json"));
    const kept = snapshots.find(({ id, label }: { id: string; label?: string }) =>
      label === "after a finding" && note.includes(id)
    );
    assert(kept, `${note}: ${JSON.stringify(snapshots)}`);
    return kept.id as string;
  };
  try {
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });
    await sbx.api("POST", "/credentials/add", { provider: "anthropic", secret: SECRET });
    await sbx.ok("profile", "copy", "code", "held");
    await Deno.writeTextFile(join(sbx.home, "profiles/held/profile.toml"), WATCHING + RESPONSE, {
      append: true,
    });
    await Deno.writeTextFile(join(sbx.home, "held.yml"), SIGMA);
    await sbx.ok("detection", "add", join(sbx.home, "held.yml"));
    await sbx.ok("create", "dev", "--profile", "held");
    const { session_id, features } = await info();

    await watchedSteps(t, sbx, request);

    await t.step("ask: everything that the rules allow waits for a person, until the lift", async () => {
      const { code, stderr } = await curl("ask");
      assertEquals([code, stderr], [0, ""]);
      assertEquals(await actions(), ["ask"]);
      const asks = async () => JSON.parse(await sbx.ok("asks", "--json")).asks;
      const asked = curl("asked");
      // Its name, then its request.
      let allowed = 0, isAnswered = false;
      asked.finally(() => isAnswered = true);
      while (!isAnswered) {
        await eventually("it asks, or has its answer", async () => isAnswered || (await asks()).length > 0);
        for (const { ask_id } of await asks()) {
          await sbx.ok("allow", ask_id);
          allowed++;
        }
      }
      assert(allowed > 0);
      assertEquals(JSON.parse((await asked).stdout).path, "/asked");
      await sbx.ok("lift", "dev");
      await goesOut("after-ask");
    });

    await t.step("block: nothing leaves, and its programs go on", async () => {
      await curl("block");
      assertEquals(await actions(), ["block"]);
      assert((await curl("blocked")).code !== 0);
      await refused("fork", "dev", "copy");
      assertEquals(await sbx.ok("exec", "dev", "-c", "echo on"), "on\n");
      assert(!world.received.some(({ url }) => url.endsWith("/blocked")));
      await sbx.ok("lift", "dev");
      await goesOut("after-block");
    });

    await t.step("snapshot and pause: the files are kept, and the VM stands still", async () => {
      await sbx.ok("exec", "dev", "-c", "echo evidence > /workspace/evidence; sync");
      const ran = curl("pause");
      await eventually("it is paused", async () => (await info()).status === "Paused");
      assertEquals(await actions(), ["block", "pause", "snapshot"]);
      for (const words of [["resume", "dev"], ["fork", "dev", "copy"], ["exec", "dev", "--", "true"]]) {
        await refused(...words);
      }
      const { available_actions } = await info();
      assertEquals(available_actions.filter((each: string) => ["resume", "fork", "exec"].includes(each)), []);

      await killService();
      assertEquals([(await info()).status, await actions()], ["Paused", ["block", "pause", "snapshot"]]);
      await refused("resume", "dev");

      const { response: { notes } } = await info();
      assertEquals(notes.length, 1, `every answer was possible: ${notes}`);
      await sbx.ok("lift", "dev");
      await sbx.ok("resume", "dev");
      assert(!(await ran).stdout.includes(`"/pause"`));
      assertEquals((await info()).response, undefined);
      await sbx.ok("exec", "dev", "-c", "rm /workspace/evidence");
      await sbx.ok("snapshots", "restore", "dev", await keptBy(notes[0]));
      assertEquals(await sbx.ok("exec", "dev", "-c", "cat /workspace/evidence"), "evidence\n");
      await goesOut("after-pause");
    });

    await t.step("suspend: its memory is kept, also past the service, and nothing resumes it", async () => {
      const ran = curl("suspend");
      // A host that saves no memory pauses the VM instead, and says so.
      const state = features.save_state ? "Suspended" : "Paused";
      await eventually(`it is ${state}`, async () => (await info()).status === state);
      await killService();
      const { status, response: { notes } } = await info();
      assertEquals([status, await actions()], [state, ["block", "snapshot", "suspend"]]);
      await keptBy(notes[0]);
      assertEquals(notes.length, features.save_state ? 1 : 2, `${notes}`);
      if (!features.save_state) assertMatch(notes[1], /suspend was not possible .*: it is paused instead/);
      await refused("resume", "dev");
      await refused("fork", "dev", "copy");
      if (features.save_state) await refused("start", "dev");
      await sbx.ok("lift", "dev");
      await sbx.ok("resume", "dev");
      await ran;
      assertEquals(await sbx.ok("exec", "dev", "-c", "cat /workspace/evidence"), "evidence\n");
      await goesOut("after-suspend");
    });

    await t.step("the record has each answer and lift, and the secret is nowhere", async () => {
      const { events } = JSON.parse(await sbx.ok("events", "dev", "--family", "process", "--json"));
      const answers = events.flatMap(({ process: { activity }, common }: Answer) =>
        activity.executable === "sbx-response"
          ? [`${activity.argv[1]} ${common.labels.by ?? "by a person"}`]
          : []
      );
      const lift = "lift by a person";
      assertEquals(answers.slice(0, 4), ["ask profile", lift, "block profile", lift]);
      assertEquals(answers.filter((each: string) => each === lift).length, 4);
      for (const each of ["snapshot profile", "pause profile", "suspend profile"]) {
        assert(answers.includes(each), `${each} of ${answers}`);
      }
      assertMatch(await sbx.ok("findings", "dev", "--all"), /answered .* with pause/);
      assertEquals(world.received.at(-1)!.headers["x-api-key"], SECRET);
      await sbx.ok("delete", "--force", "dev");
      await requireFed(sbx, receiver, session_id);
      const { stdout } = await runChild("grep", { args: ["-rlazF", SHOWN, sbx.home] });
      assertEquals(new TextDecoder().decode(stdout), "");
      assertStringIncludes(await sbx.ok("verify", session_id), "events as recorded");
    });
  } finally {
    await sbx.dispose();
    await world.close();
    await Deno.remove(corp);
  }
});

interface Answer {
  common: { labels: Record<string, string> };
  process: { activity: { executable: string; argv: string[] } };
}

function isAlive(pid: number): boolean {
  try {
    return Deno.statSync(`/proc/${pid}`).isDirectory &&
      !/^\d+ \(.*\) Z/.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false;
  }
}
