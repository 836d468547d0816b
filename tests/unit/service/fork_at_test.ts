/** Files of a fork that has the workspace of a snapshot, of a stopped and of a running VM. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { SnapshotStore } from "../../../lib/machine/snapshot/mod.ts";
import { makeForkFiles } from "../../../lib/service/vm/forks.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import type { Call } from "../../../lib/session/ipc/mod.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { contractOf } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";
import { withProcesses } from "../../helper/vm_process.ts";

type Content = Parameters<typeof makeForkFiles>[3];

const INFO = { state: "Running" as const, boot_stages: [], pid: 1 };

/** A VM whose process notes its calls; `syncCode` is the exit code of sync. */
async function withVm(
  run: (parts: {
    source: Vm;
    home: ReturnType<typeof homeOf>;
    calls: string[];
    fork(at: string, parts?: { contract: Content["contract"] }): Promise<string>;
  }) => Promise<void>,
  { syncCode = 0, at }: { syncCode?: number; at?(call: string, source: Vm): void } = {},
): Promise<void> {
  const calls: string[] = [];
  const serve = async (_name: string, call: Call, caller: { reply(reply: unknown): Promise<void> }) => {
    calls.push(call.t === "Exec" ? call.argv.join(" ") : call.t);
    at?.(calls.at(-1)!, source);
    if (call.t !== "Exec") return await caller.reply({ t: "Info", info: INFO });
    const exited = { t: "Exited", truncated: false, duration_ms: 1, event_id: "0123456789ab" };
    await caller.reply({ ...exited, exit_code: syncCode });
  };
  let source: Vm;
  await withProcesses(["dev"], serve as never, async (dir) => {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
    const vmOf = (name: string): Vm => {
      const id = crypto.randomUUID();
      const state = { state: "Stopped" as const, boot_stages: [], pid: 0 };
      const process = new VmProcess(join(dir, `${name}.sock`));
      return { record: recordOf(id, name), paths: sessionPaths(home, id), process, state };
    };
    source = vmOf("dev");
    for (const path of [source.paths.workspace, source.paths.snapshots]) {
      await Deno.mkdir(path, { recursive: true });
    }
    await Deno.writeTextFile(source.paths.scratch, "disk");
    const fork = async (at: string, parts = { contract: contractOf("") }) => {
      const made = vmOf("earlier");
      const content = Object.defineProperties(
        { request: {}, at },
        Object.getOwnPropertyDescriptors(parts),
      ) as unknown as Content;
      await makeForkFiles(home, source, [made], content);
      return made.paths.dir;
    };
    await run({ source, home, calls, fork });
  });
}

Deno.test("it has the snapshot's workspace and the disk as it is, and the source keeps both", () =>
  withVm(async ({ source, calls, fork }) => {
    const { workspace, snapshots, scratch } = source.paths;
    const store = new SnapshotStore(snapshots, workspace);
    await Deno.writeTextFile(join(workspace, "a"), "one");
    const { id } = (await store.create({ kind: "manual", limits: { auto: 1, manual: 1 } }))!;
    await Deno.writeTextFile(join(workspace, "a"), "two");
    await Deno.writeTextFile(join(workspace, "b"), "new");
    await Deno.writeTextFile(scratch, "later disk");
    for (const state of ["Stopped", "Running"] as const) {
      source.state = { ...source.state, state };
      const dir = await fork(id);
      const names = Array.from(Deno.readDirSync(join(dir, "workspace")), ({ name }) => name);
      assertEquals([names, await Deno.readTextFile(join(dir, "workspace/a"))], [["a"], "one"]);
      assertEquals(await Deno.readTextFile(scratch.replace(source.paths.dir, dir)), "later disk");
      assertEquals(Array.from(Deno.readDirSync(join(dir, "snapshots"))), []);
      assertEquals(JSON.parse(await Deno.readTextFile(join(dir, "state.json"))).state, "Stopped");
      assertEquals(calls.splice(0), state === "Stopped" ? [] : ["sync", "Pause", "Resume"]);
    }
    assertEquals(await Deno.readTextFile(join(workspace, "a")), "two");
    assertEquals((await store.list()).map((each) => each.id), [id]);
  }));

Deno.test("a guest that cannot write out its files, and a snapshot that is damaged, make none", async () => {
  await withVm(async ({ source, home, calls, fork }) => {
    source.state = { ...source.state, state: "Running" };
    assertEquals((await assertRejects(() => fork("s00000000"), SbxError)).code, "vm.fork_failed");
    assertEquals(calls, ["sync"], "it did not stand still");
    const left = Array.from(Deno.readDirSync(home.sessionsDir), ({ name }) => name);
    assertEquals(left, [source.record.id]);
  }, { syncCode: 1 });
  await withVm(async ({ source, home, fork }) => {
    assertEquals((await assertRejects(() => fork("s00000000"), SbxError)).code, "snapshot.not_found");
    const left = Array.from(Deno.readDirSync(home.sessionsDir), ({ name }) => name);
    assertEquals(left, [source.record.id]);
  });
});

Deno.test("a VM that a finding holds back is not copied: before its report, and in the middle of the copy", async () => {
  const requireNone = async ({ source, home, fork }: Parameters<Parameters<typeof withVm>[0]>[0]) => {
    const { workspace, snapshots } = source.paths;
    await Deno.writeTextFile(join(workspace, "a"), "one");
    const store = new SnapshotStore(snapshots, workspace);
    const { id } = (await store.create({ kind: "manual", limits: { auto: 1, manual: 1 } }))!;
    const error = await assertRejects(() => fork(id), SbxError);
    assertEquals([error.code, error.hint!.includes("sbx lift dev")], ["vm.held", true]);
    const left = Array.from(Deno.readDirSync(home.sessionsDir), ({ name }) => name);
    assertEquals(left, [source.record.id]);
  };
  // A damaged one holds too.
  await withVm(async (parts) => {
    await Deno.writeTextFile(parts.source.paths.response, "");
    await requireNone(parts);
  });
  for (const when of ["sync", "Pause", "Resume"]) {
    await withVm(async (parts) => {
      parts.source.state = { ...parts.source.state, state: "Running" };
      await requireNone(parts);
    }, { at: (call, { paths }) => call === when && Deno.writeTextFileSync(paths.response, "") });
  }
});

Deno.test("a copy of what a finding then holds back gets no place, however late the finding is", () =>
  withVm(async ({ source, home, fork }) => {
    await Deno.writeTextFile(join(source.paths.workspace, "a"), "one");
    const error = await assertRejects(() =>
      fork("1", {
        get contract() {
          Deno.writeTextFileSync(source.paths.response, "");
          return contractOf("");
        },
      }), SbxError);
    assertEquals(error.code, "vm.held");
    const left = Array.from(Deno.readDirSync(home.sessionsDir), ({ name }) => name);
    assertEquals(left, [source.record.id]);
  }));
