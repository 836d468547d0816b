/** Programs that the host starts in a guest. */
import { assertEquals } from "@std/assert";
import type { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { execProgram, type ProgramDefaults } from "../../../lib/session/exec.ts";
import type { ExecCall } from "../../../lib/session/ipc/mod.ts";
import type { SessionHealth } from "../../../lib/session/health.ts";
import { TestGate } from "../../helper/gate.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

/** A session whose programs end at once, and what its guest is asked. */
function fakeSession(defaults: ProgramDefaults = {}, rules = "") {
  const gate = new TestGate(rules);
  const ordered: (readonly string[])[] = [];
  const asked: Record<string, unknown>[] = [];
  const exec = (request: Record<string, unknown>) => {
    asked.push(request);
    return Promise.resolve({ exit_code: 3, truncated: false, duration_ms: 1 });
  };
  const context = {
    gate,
    activity: {
      hostStarted() {},
      holds: { ready: () => Promise.resolve() },
      looks: { order: (argv: readonly string[]) => void ordered.push(argv) },
    },
    link: () => Promise.resolve({ exec } as unknown as GuestLink),
    health: { notifying: (_: unknown, end: unknown) => end } as unknown as SessionHealth,
    defaults,
  };
  const streams = { output: () => Promise.resolve() } as unknown as Parameters<typeof execProgram>[2];
  return {
    gate,
    asked,
    ordered,
    exec: (call: Omit<ExecCall, "t" | "stdin">) =>
      execProgram(context, { t: "Exec", stdin: false, ...call }, streams),
  };
}

Deno.test("start and end of a program have the trace of its request, which the guest does not get", async () => {
  const { gate, asked, exec } = fakeSession();
  await exec({ argv: ["true"], trace_id: TRACE });
  await exec({ argv: ["true"] });
  assertEquals(gate.entries.map(({ event: { common } }) => [common.event_type, common.trace_id]), [
    ["process.exec", TRACE],
    ["process.exit", TRACE],
    ["process.exec", undefined],
    ["process.exit", undefined],
  ]);
  assertEquals(asked.map((request) => "trace_id" in request), [false, false]);
});

Deno.test("a program of an image does not run as root for the begin of its name", async () => {
  const { asked, exec } = fakeSession({ user: "app" });
  await exec({ argv: ["sbx-of-the-image"] });
  await exec({ argv: ["sbx-mcp-server"] });
  assertEquals(asked.map(({ user }) => user), ["app", undefined]);
});

Deno.test("a program has the folder and user of its image, unless its request names others or it is sbx's own", async () => {
  const { gate, asked, exec } = fakeSession({ cwd: "/srv", user: "app", keepsPath: true });
  await exec({ argv: ["true"] });
  await exec({ argv: ["true"], cwd: "/tmp", user: "root" });
  await exec({ argv: ["sbx-doctor", "--json"] });
  assertEquals(asked.map(({ cwd, user }) => [cwd, user]), [["/srv", "app"], ["/tmp", "root"], [
    undefined,
    undefined,
  ]]);
  assertEquals(
    gate.entries.filter(({ event: { common } }) => common.event_type === "process.exec")
      .map(({ event: { process } }) => process?.activity.cwd),
    ["/srv", "/tmp", "/workspace"],
  );
  await exec({ argv: ["/bin/bash", "--login"] });
  assertEquals(asked.at(-1)?.argv, ["/bin/bash"]);
});

Deno.test("a look of sbx is no event, unless a rule stops or changes it, or finds something in it", async () => {
  const { gate, asked, exec, ordered } = fakeSession();
  const argv = ["/bin/sh", "-c", "COLLECT", "sbx-repository", "/root/web"];
  assertEquals((await exec({ argv, look: true })).event_id, "");
  assertEquals([gate.entries.length, asked.length, ordered], [0, 1, [argv]]);
  const rules = `
[profiles.rules.no-sh]
match = 'process.activity.executable == "/bin/sh"'
action = "block"
`;
  const ruled = fakeSession({}, rules);
  const refused = await ruled.exec({ argv, look: true });
  assertEquals([refused.exit_code, ruled.asked.length, ruled.ordered], [126, 0, []]);
  assertEquals(ruled.gate.entries.map(({ event: { common } }) => common.event_type), ["process.exec"]);
  for (const action of ["observe", "allow"]) {
    const found = fakeSession({}, `${rules.replace("block", action)}detection_level = "high"\n`);
    await found.exec({ argv, look: true });
    const finds = found.gate.notices.some(({ type, payload }) =>
      type === "finding" && payload.rule_id === "no-sh"
    );
    assertEquals([action, found.ordered, finds], [action, [], true]);
  }
});

Deno.test("start and end of sbx's own program for repositories have the mark", async () => {
  const { gate, asked, exec } = fakeSession();
  await exec({ argv: ["/bin/sh", "-c", "CLONE"], repository: "bring" });
  assertEquals(gate.entries.map(({ event: { common } }) => common.labels.repository), ["bring", "bring"]);
  assertEquals("repository" in asked[0], false);
});
