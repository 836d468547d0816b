/** Probes of `sbx status`: each is bounded, and a late one or a failing one is an issue itself. */
import { assertEquals, assertMatch } from "@std/assert";
import { healthProbes, runProbes } from "../../../lib/service/health/health.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { recordOf } from "../../helper/vm.ts";

/** The deadlines keep no process alive; a service has connections that do. */
async function runAlive(...run: Parameters<typeof runProbes>): Promise<string[]> {
  const alive = setInterval(() => {}, 1000);
  return await runProbes(...run).finally(() => clearInterval(alive));
}

Deno.test("a probe that hangs or fails keeps no other one back", async () => {
  const issues = await runAlive([
    ["hanging", () => new Promise(() => {})],
    ["failing", () => Promise.reject(new Error("no"))],
    ["good", () => Promise.resolve([])],
    ["bad", () => Promise.resolve(["one", "two"])],
  ], 50);
  assertEquals(issues.length, 4);
  assertMatch(issues[0], /^hanging: no answer within 0.05 s/);
  assertMatch(issues[1], /^failing: /);
  assertEquals(issues.slice(2), ["one", "two"]);
});

Deno.test("a program that is gone, and a VM whose process does not answer, are issues", async () => {
  const dir = await Deno.makeTempDir();
  const vm = (call: () => Promise<unknown>): Vm => ({
    record: recordOf(crypto.randomUUID(), "v"),
    paths: { ledger: `${dir}/none.db` } as Vm["paths"],
    process: { call } as unknown as Vm["process"],
    state: { state: "Running", boot_stages: [], pid: 7 },
  });
  try {
    const vms = [vm(() => new Promise(() => {})), vm(() => Promise.resolve({}))];
    const registry = { alive: () => vms, all: () => vms };
    const probes = healthProbes(
      {
        home: homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined }),
        corp: { state: { status: "absent" }, path: "corp.toml" },
        registry,
        sessions: { uncollected: () => Promise.resolve(0) },
        fleet: { problems: () => [] },
        feeds: { problems: () => [] },
        bundles: { problems: () => [] },
        room: { problems: () => ["records take too much"] },
        witnesses: { problems: () => Promise.resolve([]) },
        standing: { notesOf: () => Promise.resolve([]) },
        templates: { status: () => Promise.resolve({ problems: ["a template failed"] }) },
      } as unknown as Parameters<typeof healthProbes>[0],
      `${dir}/gone.ts`,
    );
    // What a probe imports at its first run may take longer than a probe may:
    // that is no issue of these sources.
    const issues = await runAlive(probes, 60_000);
    assertEquals(issues.length, 4, issues.join("\n"));
    assertMatch(issues[0], /gone\.ts, is gone/);
    assertEquals(issues[1], "a template failed");
    assertEquals(issues[2], "records take too much");
    assertMatch(issues[3], /^VM "v": its process \(pid 7\) does not answer/);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
