/**
 * What `sbx status` says of VMs with a machine: an image that is old or withdrawn, and a gap in the record.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { dirname } from "node:path";
import type { Home } from "../../../lib/base/home/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { GAP_RECENT_MS, runProbes, vmProbes } from "../../../lib/service/health/health.ts";
import { ReleaseStanding } from "../../../lib/service/contract/publisher_status.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { sessionPaths, type VmRecord } from "../../../lib/session/mod.ts";
import { withBoot } from "../../helper/boot.ts";
import { execEvent } from "../../helper/ledger.ts";
import { learn } from "../../helper/release.ts";

function vmOf(home: Home, record: Partial<VmRecord>, state: Vm["state"]["state"]): Vm {
  const id = crypto.randomUUID();
  return {
    record: { id, name: "dev", created_at: "", persistent: true, scratch_gb: 0, ...record } as VmRecord,
    paths: sessionPaths(home, id),
    process: { call: () => Promise.resolve({}) } as unknown as Vm["process"],
    state: { state, boot_stages: [], pid: 7 },
  };
}

/** Issues of one VM. The deadlines keep no process alive; a service has connections that do. */
async function issuesOf(home: Home, vm: Vm): Promise<string[]> {
  const alive = setInterval(() => {}, 1000);
  const sources = { home, registry: { all: () => [vm] }, standing: new ReleaseStanding(home) };
  return await runProbes(vmProbes(sources)).finally(() => clearInterval(alive));
}

const ROOTFS = "rootfs.erofs";

Deno.test(
  "a VM that runs or is suspended with an older image is an issue until it boots the newer one",
  withBoot(async ({ boot, home }) => {
    const { record } = await boot();
    for (const state of ["Running", "Paused", "Suspended", "Stopped"] as const) {
      assertEquals(await issuesOf(home, vmOf(home, record, state)), []);
    }
    const older = { ...record.assets, version: "2026.0101.1", rootfs: `/a/rootfs-${"0".repeat(16)}.erofs` };
    const stale = { ...record, assets: { ...older, hashes: { ...older.hashes, [ROOTFS]: "0".repeat(64) } } };
    for (const [state, does] of [["Running", "runs"], ["Suspended", "was suspended with"]] as const) {
      const issues = await issuesOf(home, vmOf(home, stale, state));
      assertEquals(issues, [
        `VM "dev" ${does} image 2026.0101.1; its profile boots p 1.0.0 now (sbx stop dev, then sbx start dev)`,
      ]);
    }
    assertEquals(await issuesOf(home, vmOf(home, stale, "Stopped")), []);
    // The same file in another folder is the same image.
    const moved = { ...record, assets: { ...record.assets, rootfs: "/elsewhere/rootfs.erofs" } };
    assertEquals(await issuesOf(home, vmOf(home, moved, "Running")), []);
  }),
);

Deno.test(
  "a VM that runs with a withdrawn image is an issue",
  withBoot(async ({ boot, home }) => {
    const { record } = await boot();
    const hash = record.assets.hashes![ROOTFS];
    await learn(home, "revoked", { id: "other", revision: "1.0.0", rootfs: hash });
    const [issue, ...more] = await issuesOf(home, vmOf(home, record, "Running"));
    assertMatch(issue, /^VM "dev": its image is revoked .*: sbx update installs another one$/);
    assertEquals(more, []);
  }),
);

Deno.test(
  "a gap in the record of a VM's programs is an issue for an hour, without the words of its guest",
  withBoot(async ({ boot, home }) => {
    const { record } = await boot();
    for (const [age, count] of [[60_000, 1], [GAP_RECENT_MS + 60_000, 0]]) {
      const vm = vmOf(home, record, "Running");
      await Deno.mkdir(dirname(vm.paths.ledger), { recursive: true });
      const event = execEvent();
      const at = Date.now() - age;
      event.common = { ...event.common, timestamp_unix_ms: at };
      const { event_id } = event.common;
      const findings = [{ finding_id: "f", event_id, rule_id: "activity-gap", pack_id: "sbx.builtin" }];
      await using ledger = await Ledger.open(vm.paths.ledger, { sessionId: vm.record.id });
      ledger.append({ event: execEvent() });
      await ledger.flush();
      assertEquals(await issuesOf(home, vm), []);
      ledger.append({ event, findings: findings.map((each) => ({ ...each, title: "\x1b[2J" })) });
      await ledger.flush();
      const issues = await issuesOf(home, vm);
      assertEquals(issues.length, count, issues.join("\n"));
      if (count) {
        assertEquals(
          issues[0],
          `VM "dev": what its programs did is missing in its record at ${
            new Date(at).toISOString().slice(0, 19)
          }Z (sbx findings dev shows why)`,
        );
      }
    }
  }),
);
