/** VMs of stdio MCP servers: started for a need, and removed with the VM that they belong to. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import type { Call } from "../../../lib/session/ipc/mod.ts";
import { companionContract, Companions } from "../../../lib/service/vm/mcp_companions.ts";
import { Registry } from "../../../lib/service/vm/registry.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { eventually } from "../../helper/sbx.ts";
import { contractOf } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";
import { withProcesses } from "../../helper/vm_process.ts";

const PARENT = "11111111-1111-4111-8111-111111111111";
type Assigned = Extract<Call, { t: "McpProgramVm" }>;

interface World {
  parent: Vm;
  registry: Registry;
  companions: Companions;
  /** names and actions, in order */
  log: string[];
  /** what the parent was told */
  assigned: Assigned[];
  /** has the parent's process report these needs */
  need(...needs: [server: string, program: string][]): void;
}

async function withWorld(
  work: (world: World) => Promise<void>,
  booting: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const assigned: Assigned[] = [];
  await withProcesses(["parent", "vm"], async (_, call, caller) => {
    if (call.t === "McpProgramVm") assigned.push(call);
    await caller.reply(call.t === "Info" ? { t: "Info", info: running() } : { t: "Ok" });
  }, async (dir) => {
    const registry = new Registry(homeOf({ get: () => dir }));
    const log: string[] = [];
    const vmOf = (record: Vm["record"], socket: string): Vm => ({
      record,
      paths: {} as Vm["paths"],
      process: new VmProcess(join(dir, `${socket}.sock`)),
      state: running(),
    });
    const parent = vmOf({ ...recordOf(PARENT, "dev"), profile_id: "agent" }, "parent");
    registry.add(parent);
    const companions = new Companions({
      registry,
      create: async ({ name, profile_id, cpus, ram_mb, persistent }, parent) => {
        await new Promise((resolve) => setTimeout(resolve, 1));
        log.push(`create ${name} ${profile_id} ${cpus} ${ram_mb} ${persistent}`);
        const record = { ...recordOf(crypto.randomUUID(), name!), persistent: false, parent };
        const vm = { ...vmOf(record, "vm"), booting: booting() };
        registry.add(vm);
        return vm;
      },
      remove: (vm) => {
        log.push(`remove ${vm.record.name}`);
        registry.remove(vm);
        return Promise.resolve();
      },
    });
    const need: World["need"] = (...needs) => {
      parent.state = { ...running(), mcp_needs: needs.map(([server, program]) => ({ server, program })) };
      companions.follow(parent);
    };
    await work({ parent, registry, companions, log, assigned, need });
  });
}

function running(): Vm["state"] {
  return { state: "Running", boot_stages: [], pid: 1 };
}

Deno.test("a need gets a small VM of the profile, and the one who needs it is told which", () =>
  withWorld(async ({ need, log, assigned, registry }) => {
    need(["files", "p1"]);
    need(["files", "p1"]);
    await eventually("it is assigned", () => assigned.length > 0);
    const [vm] = registry.all().filter(({ record }) => record.parent);
    assertEquals(vm.record.parent, { id: PARENT, server: "files", program: "p1" });
    assertEquals(assigned[0].session, vm.record.id);
    // Reported twice, as after a restart of the service: the same VM.
    await eventually("it is told again", () => assigned.length === 2);
    assertEquals(assigned[1].session, vm.record.id);
    assertEquals(log, ["create dev-files-1 agent 1 512 false"]);
  }));

Deno.test("a changed program gets another VM, and a need that is gone none", () =>
  withWorld(async ({ need, log, assigned }) => {
    need(["files", "p1"]);
    await eventually("it is assigned", () => assigned.length === 1);
    need(["files", "p2"]);
    await eventually("the other is assigned", () => assigned.length === 2);
    assertEquals(assigned[1].need.program, "p2");
    need();
    assertEquals(log.map((line) => line.split(" ").slice(0, 2).join(" ")), [
      "create dev-files-1",
      "remove dev-files-1",
      "create dev-files-1",
      "remove dev-files-1",
    ]);
  }));

Deno.test("a VM that does not boot is removed, and the reason is told", () =>
  withWorld(async ({ need, log, assigned }) => {
    need(["files", "p1"]);
    await eventually("it is told", () => assigned.length === 1);
    assertEquals([assigned[0].session, assigned[0].error], [undefined, "no KVM today"]);
    assertEquals(log.at(-1), "remove dev-files-1");
  }, () => Promise.reject(new SbxError("vm.boot_failed", "no KVM today"))));

Deno.test("one VM has at most eight of them", () =>
  withWorld(async ({ need, log, assigned }) => {
    need(...Array.from({ length: 9 }, (_, at): [string, string] => [`s${at}`, "p"]));
    await eventually("all are told", () => assigned.length === 9);
    assertEquals(log.length, 8);
    assertEquals(
      assigned.flatMap(({ error }) => error ?? []),
      ['"dev" has 8 VMs of stdio MCP servers, the limit'],
    );
  }));

Deno.test("they end with the VM they belong to, and an orphan is removed when the service starts", () =>
  withWorld(async ({ parent, need, log, assigned, companions }) => {
    need(["files", "p"], ["git", "p"]);
    await eventually("both are assigned", () => assigned.length === 2);
    await companions.removeOrphans();
    assertEquals(log.length, 2, "neither is an orphan");
    parent.state = { state: "Defunct", boot_stages: [], pid: 1 };
    await companions.removeOrphans();
    assertEquals(log.slice(2).sort(), ["remove dev-files-1", "remove dev-git-1"]);
  }));

Deno.test("one that ends by itself is removed", () =>
  withWorld(async ({ need, log, assigned, registry, companions }) => {
    need(["files", "p"]);
    await eventually("it is assigned", () => assigned.length === 1);
    const [vm] = registry.all().filter(({ record }) => record.parent);
    vm.state = { state: "Defunct", boot_stages: [], pid: 1 };
    companions.follow(vm);
    assertEquals(log.at(-1), "remove dev-files-1");
  }));

Deno.test("its contract is the profile's without MCP: neither servers of its own, nor the built-in one", () => {
  const contract = contractOf("");
  const server = { name: "A", command: "/a", args: [], builtin: false, enabled: true };
  const { profile, corp, ...rest } = companionContract({
    ...contract,
    profile: { ...contract.profile, revision: "7", mcp: { a: server } },
    corp: { ...contract.corp, logins: false, mcp: { b: server } },
  });
  assertEquals(profile, { ...contract.profile, revision: "7", mcp: {} });
  assertEquals(corp, { ...contract.corp, logins: false, mcp: { local: { enabled: false } } });
  const { profile: _, corp: __, ...before } = contract;
  assertEquals(rest, before);
});
