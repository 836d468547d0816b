/**
 * VMs that are written to disk and come back. A host whose QEMU cannot do it says so;
 * tests/e2e/trixie_test.ts runs this file again in Debian trixie, whose QEMU can.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { exists } from "../helper/exists.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { requireClock } from "./clock_steps.ts";
import { attachTerminal } from "./terminal.ts";

/** Counts into a file that stays open, and leaves no number out. */
const COUNT = "exec 3>/workspace/count; n=0; while :; do n=$((n+1)); echo $n >&3; sleep 0.02; done";

const ASK = `
[profiles.rules.held]
action = "ask"
match = 'dns.request.qname == "held.test"'

[detection.response.rule]
"5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7b00" = ["suspend"]
`;

const SIGMA = `
title: Lookup That Suspends The VM
id: 5c3b1d1e-6d0b-4e39-9d5e-0c2a4c1f7b00
logsource: { category: dns_query }
detection:
  selection: { QueryName: suspends.test }
  condition: selection
level: high
`;

interface Answer {
  process: { activity: { argv: string[] } };
}

Deno.test("a VM is suspended and comes back", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  const exec = (...argv: string[]) => sbx.ok("exec", "dev", "--", ...argv);
  const statusOf = async (name: string) => JSON.parse(await sbx.ok("info", name, "--json")).status;
  try {
    await sbx.ok("profile", "copy", "code", "asking");
    await Deno.writeTextFile(`${sbx.home}/profiles/asking/profile.toml`, ASK, { append: true });
    await Deno.writeTextFile(join(sbx.home, "suspends.yml"), SIGMA);
    await sbx.ok("detection", "add", join(sbx.home, "suspends.yml"));
    await sbx.ok("create", "dev", "--profile", "asking", "-e", "WHO=me");
    const { features, workspace, id } = JSON.parse(await sbx.ok("info", "dev", "--json"));
    if (Deno.env.has("SBX_REQUIRE_SUSPEND")) assert(features.save_state, "this host can suspend VMs");
    if (!features.save_state) {
      await t.step("a host that cannot do it says what is missing", async () => {
        const { code, stderr } = await sbx.cli("suspend", "dev");
        assertEquals(code, 1);
        assertMatch(stderr, /needs QEMU 8\.2 and virtiofsd 1\.11 or later; this host has QEMU \d/);
        assertMatch(await sbx.ok("status"), /without +save_state: needs QEMU 8\.2/);
        assertEquals(await exec("echo", "still there"), "still there\n");
      });
      return;
    }

    await t.step(
      "programs, open files, variables and the shell's terminal are as they were, and no write is lost",
      async () => {
        await exec("sh", "-c", `nohup sh -c '${COUNT}' >/dev/null 2>&1 & echo begun >/root/kept`);
        const before = await attachTerminal(sbx, id);
        before.type("here=before; echo set-$here\n");
        await eventually("the shell has the variable", () => before.text().includes("set-before"));
        before.socket.close();
        await eventually(
          "its programs are reported",
          async () => (await sbx.ok("events", "dev", "--process", "sbx-activity.js")).includes("exec "),
        );
        await eventually(
          "it counts",
          async () => (await Deno.readTextFile(join(workspace, "count"))).length > 20,
        );
        await sbx.ok("suspend", "dev");
        assertEquals(await statusOf("dev"), "Suspended");
        const at = await Deno.readTextFile(join(workspace, "count"));
        await sbx.ok("stop");
        await sbx.ok("start");
        assertEquals(await statusOf("dev"), "Suspended");
        assertEquals(await Deno.readTextFile(join(workspace, "count")), at, "nothing runs meanwhile");
        await sbx.ok("resume", "dev");
        assertEquals(JSON.parse(await sbx.ok("info", "dev", "--json")).started_by, "resume");
        await requireClock(sbx, "dev");
        await eventually(
          "it counts on",
          async () => (await Deno.readTextFile(join(workspace, "count"))).length > at.length + 20,
        );
        const numbers = (await Deno.readTextFile(join(workspace, "count"))).split("\n").slice(0, -1).map(
          Number,
        );
        assertEquals(numbers, numbers.map((_, index) => index + 1));
        assertEquals(await exec("sh", "-c", 'cat /root/kept; echo "$WHO $(hostname)"'), "begun\nme dev\n");
        const after = await attachTerminal(sbx, id);
        await eventually("its last output is shown again", () => after.text().includes("set-before"));
        after.type("echo shell-$here-again\n");
        await eventually("the shell is the same one", () => after.text().includes("shell-before-again"));
        after.socket.close();
      },
    );

    await t.step("the report of its programs goes on, without a gap", async () => {
      await exec("sh", "-c", "uname -v; true");
      await eventually(
        "it reports",
        async () => (await sbx.ok("events", "dev", "--process", "uname")).includes("uname -v"),
      );
      assertEquals((await sbx.ok("findings", "dev")).includes("activity-gap"), false);
    });

    await t.step("a program that sbx exec waits for goes on without it", async () => {
      const wait =
        "touch /workspace/early; until [ -e /workspace/go ]; do sleep 0.2; done; echo done >/workspace/late";
      const waiting = sbx.cli("exec", "dev", "--", "sh", "-c", wait);
      await eventually("it runs", () => exists(join(workspace, "early")));
      await sbx.ok("suspend", "dev");
      const { code } = await waiting;
      assert(code !== 0);
      await sbx.ok("resume", "dev");
      await Deno.writeTextFile(join(workspace, "go"), "");
      await eventually("it has ended", () => exists(join(workspace, "late")));
    });

    await t.step("of two at once one suspends it, and both resume it", async () => {
      const both = (verb: string) => Promise.all([sbx.cli(verb, "dev"), sbx.cli(verb, "dev")]);
      const suspends = await both("suspend");
      assertEquals(suspends.map(({ code }) => code).sort(), [0, 1]);
      assertMatch(suspends.find(({ code }) => code === 1)!.stderr, /busy|is Suspended|being/);
      assertEquals(await statusOf("dev"), "Suspended");
      assertEquals((await both("resume")).map(({ code }) => code), [0, 0]);
      assertEquals(await exec("cat", "/root/kept"), "begun\n");
    });

    await t.step("an ask stays, and the request that is sent again waits for it", async () => {
      const pending = async (): Promise<string[]> => {
        const { asks } = JSON.parse(await sbx.ok("asks", "--json"));
        return asks.map(({ ask_id }: { ask_id: string }) => ask_id);
      };
      const resolve = () => sbx.cli("exec", "dev", "--", "getent", "hosts", "held.test");
      const held = resolve();
      await eventually("it is asked", async () => (await pending()).length > 0);
      const before = await pending();
      await sbx.ok("suspend", "dev");
      await held;
      await sbx.ok("resume", "dev");
      const after = await pending();
      for (const id of before) {
        assert(after.includes(id), `${id} stays`);
        await sbx.ok("allow", id, "--for", "10m");
      }
      await resolve();
      const { events } = JSON.parse(await sbx.ok("events", "dev", "--grep", "held.test", "--json"));
      assert(
        events.some(({ decision }: { decision?: string }) => decision === "allow"),
        "it was let through",
      );
      assertEquals((await pending()).filter((id) => before.includes(id)), []);
    });

    await t.step("a finding suspends it, and its record is whole", async () => {
      const looking = sbx.cli("exec", "dev", "--", "getent", "hosts", "suspends.test");
      await eventually("it is suspended", async () => await statusOf("dev") === "Suspended");
      await looking;
      const { response } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      const actions = response.actions.map(({ action }: { action: string }) => action);
      assertEquals([actions.toSorted(), response.notes], [["block", "suspend"], []]);
      const { code, stderr } = await sbx.cli("resume", "dev");
      assert(code !== 0);
      assertStringIncludes(stderr, "sbx lift dev");
      assertStringIncludes(await sbx.ok("findings", "dev"), "Lookup That Suspends The VM");
      const { events } = JSON.parse(await sbx.ok("events", "dev", "--process", "sbx-response", "--json"));
      const answers = events.map((event: Answer) => event.process.activity.argv[1]);
      assertEquals(answers.toSorted(), ["block", "suspend"]);
      assertStringIncludes(await sbx.ok("verify", id), "valid");
      await sbx.ok("lift", "dev");
      await sbx.ok("resume", "dev");
      assertEquals(await exec("cat", "/root/kept"), "begun\n");
    });

    await t.step("a VM that cannot be written goes on as if nothing had been asked", async () => {
      const obstacle = join(sbx.home, "sessions", id, "suspended", "obstacle");
      await Deno.mkdir(obstacle, { recursive: true });
      const { code, stderr } = await sbx.cli("suspend", "dev");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "cannot be suspended");
      await Deno.remove(join(obstacle, ".."), { recursive: true });
      assertEquals(await statusOf("dev"), "Running");
      assertEquals(await exec("sh", "-c", "echo $WHO"), "me\n");
      assertStringIncludes(await sbx.ok("events", "dev"), "echo $WHO");
    });

    await t.step(
      "memory of a machine under KVM is refused where machines are emulated, and kept",
      async () => {
        const folder = join(sbx.home, "sessions", id, "suspended");
        assertEquals(await exists(folder), false, "a guest that has answered needs none");
        await sbx.ok("suspend", "dev");
        const origin = await Deno.readTextFile(join(folder, "machine.json"));
        const { accelerator } = JSON.parse(await sbx.ok("info", "dev", "--json"));
        assertEquals(JSON.parse(origin).accelerator, accelerator);
        const other = accelerator === "kvm"
          ? origin.replace(/model name[^\\]*/, "model name : other")
          : origin.replace('"tcg"', '"kvm"');
        await Deno.writeTextFile(join(folder, "machine.json"), other);
        for (const args of [["resume", "dev"], ["fork", "dev"]]) {
          const { code, stderr } = await sbx.cli(...args);
          assertEquals(code, 1);
          assertMatch(
            stderr,
            /the memory of "dev" is of a machine (under kvm, and this host's|on another processor)/,
          );
          assertStringIncludes(stderr, "sbx stop dev gives its memory up");
        }
        assertEquals(await statusOf("dev"), "Suspended");
        await Deno.writeTextFile(join(folder, "machine.json"), origin);
        await sbx.ok("resume", "dev");
        assertEquals(await exec("cat", "/root/kept"), "begun\n");
      },
    );

    await t.step(
      "memory that is damaged is refused and kept; sbx stop gives it up, and the disk stays",
      async () => {
        await sbx.ok("suspend", "dev");
        const state = join(sbx.home, "sessions", id, "suspended", "image", "state");
        await Deno.truncate(state, 1000);
        const { code, stderr } = await sbx.cli("resume", "dev");
        assertEquals(code, 1);
        assertStringIncludes(stderr, "could not be started from memory");
        assertEquals(await statusOf("dev"), "Suspended");
        await sbx.ok("stop", "dev");
        await sbx.ok("start", "dev");
        assertEquals(await exec("cat", "/root/kept"), "begun\n");
      },
    );

    await t.step("a suspended VM can be deleted, and its record verifies", async () => {
      await sbx.ok("suspend", "dev");
      await sbx.ok("delete", "dev");
      assertStringIncludes(await sbx.ok("verify", id), "valid");
    });
  } finally {
    await sbx.dispose();
  }
});
