/**
 * A running VM keeps the rules that it was booted with: everyone who asks for rules is told which those are.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { CorpStore } from "../../../lib/config/corp/mod.ts";
import { loadProfile } from "../../../lib/config/profile/mod.ts";
import { makeContract } from "../../../lib/home/mod.ts";
import { listIssues } from "../../../lib/service/health/issues.ts";
import { Service } from "../../../lib/service/mod.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { VmProcess } from "../../../lib/service/vm/vm_process.ts";
import { makeApp } from "../../../cmd/service/app.ts";
import { sessionPaths, writeContract } from "../../../lib/session/mod.ts";
import { loadDefinitions, SettingsStore } from "../../../lib/config/settings/mod.ts";
import { rule } from "../../helper/session_gate.ts";
import { recordOf } from "../../helper/vm.ts";

const HEAD = 'id = "mine"\nname = "Mine"\ndescription = ""\nrevision = "1.0.0"\n';
const RULE = rule("profiles", "no", "block", 'http.request.host == "a.example"');

/** A service with one VM that runs with the profile as it is now. */
async function withVm(
  run: (given: { service: Service; vm: Vm; edit(text: string): Promise<void> }) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const edit = async (text: string) => {
    await Deno.mkdir(join(home.profilesDir, "mine"), { recursive: true });
    await Deno.writeTextFile(join(home.profilesDir, "mine", "profile.toml"), text);
  };
  try {
    await edit(HEAD + RULE);
    const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
    const definitions = await loadDefinitions({ get: () => undefined });
    const settings = await SettingsStore.open({ home, corp, definitions });
    const service = new Service({ home, settings, corp });
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    await Deno.mkdir(paths.dir, { recursive: true });
    await writeContract(paths, await makeContract(service, await loadProfile(home, "mine")));
    const vm: Vm = {
      record: { ...recordOf(id, "dev"), profile_id: "mine" },
      paths,
      process: new VmProcess(join(dir, "none.sock")),
      state: { state: "Running", boot_stages: [], pid: 1 },
    };
    service.registry.add(vm);
    await run({ service, vm, edit });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a VM that runs with the rules of its files is up to date, whatever comments they have", () =>
  withVm(async ({ service, vm, edit }) => {
    assertEquals(await service.inForce.of(vm), { revision: "1.0.0", outdated: false });
    await edit(`# a comment moves every line\n\n${HEAD}${RULE}`);
    assertEquals(await service.inForce.of(vm), { revision: "1.0.0", outdated: false });
    assertEquals(await service.inForce.problems(), []);
  }));

Deno.test("rules edited while a VM runs: status, info and the list of rules say that it has the old ones", () =>
  withVm(async ({ service, vm, edit }) => {
    await edit(HEAD.replace("1.0.0", "2.0.0") + RULE.replace("a.example", "b.example"));
    const issues = (await listIssues(service)).filter((issue) => issue.includes("enforces"));
    assertEquals(issues.length, 1);
    assertMatch(
      issues[0],
      /^VM "dev" enforces profile "mine" as it was at its start, revision 1\.0\.0; .*sbx policy reload dev/,
    );
    const app = makeApp(service);
    const get = async (path: string) => await (await app.request(path)).json();
    const { rules, vms } = await get("/profiles/mine/enforcement/rules/list");
    assertEquals(rules[0].match, 'http.request.host == "b.example"');
    assertEquals(vms, [{ id: vm.record.id, name: "dev", revision: "1.0.0", outdated: true }]);
    assertEquals((await get("/vms/dev/info")).profile_in_force, { revision: "1.0.0", outdated: true });
    assertEquals((await get("/profiles/code/enforcement/rules/list")).vms, []);
  }));

Deno.test("the list of rules has the rules of the project file with which a VM was made", () =>
  withVm(async ({ service, vm }) => {
    const project = [{
      id: "no-paste",
      action: "block" as const,
      match: 'http.request.host == "paste.example"',
      line: 3,
    }];
    const profile = await loadProfile(service.home, "mine");
    await writeContract(vm.paths, await makeContract(service, profile, undefined, { project }));
    const path = "/profiles/mine/enforcement/rules/list";
    const { vms } = await (await makeApp(service).request(path)).json();
    assertEquals(vms.map(({ name, project }: { name: string; project: unknown }) => [name, project]), [
      ["dev", project],
    ]);
  }));

Deno.test("a profile that was deleted or broken is not what a running VM enforces", () =>
  withVm(async ({ service, vm, edit }) => {
    await edit("id = [");
    assertEquals(await service.inForce.of(vm), { revision: "1.0.0", outdated: true });
    vm.state = { ...vm.state, state: "Stopped" };
    assertEquals(await service.inForce.of(vm), undefined);
  }));
