/** Work and earlier states of several repositories in one VM, by the API of the whole service. */
import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import type {
  RepositoryStates,
  StateKept,
  StateUndone,
  VmInfo,
  WorkTaken,
  WorkView,
} from "../../lib/client/api/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { silent } from "../../lib/base/progress/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { bringIn, pullWork } from "../../lib/repo/mod.ts";
import { collectWork, keepState } from "../../cmd/sbx/files/repository.ts";
import { execEvent } from "../helper/ledger.ts";
import { git, sh } from "../helper/repository.ts";
import { RepositoryVm } from "../helper/repository_vm.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

/** A VM with the repositories `web` and `api`, and the folder `notes`. */
async function withSources(run: (vm: RepositoryVm, here: (name: string) => string) => Promise<void>) {
  await using vm = await RepositoryVm.make();
  const here = (name: string) => join(vm.dir, "person", name);
  for (const name of ["web", "api", "notes"]) {
    await Deno.mkdir(here(name), { recursive: true });
    await sh(here(name), "echo one >a; echo one >b");
    if (name !== "notes") {
      await sh(here(name), `echo ${name} >name; git init -q -b main; git add -A; git commit -qm first`);
    }
    await bringIn(vm.guest, {
      dir: here(name),
      room: vm.room,
      place: vm.inside(name),
      progress: silent,
      withSecrets: false,
    });
  }
  await run(vm, here);
}

const statesOf = async ({ client }: RepositoryVm) =>
  (await client.json<RepositoryStates>("GET", "/vms/dev/states")).states;
const undo = (vm: RepositoryVm, json = {}) =>
  vm.client.json<StateUndone>("POST", "/vms/dev/states/undo", { json });
const codeOf = (work: Promise<unknown>) =>
  work.then(() => "none", (error) => error instanceof SbxError ? error.code : error);

Deno.test(
  "of several repositories each is shown and taken by its name, and pulled as a branch of its own",
  options,
  () =>
    withSources(async (vm, here) => {
      const info = await vm.client.json<VmInfo>("GET", "/vms/dev/info");
      assertEquals(info.repositories!.map(({ name }) => name), ["web", "api", "notes"]);
      for (const name of ["web", "api", "notes"]) await sh(vm.inside(name), "echo two >a; echo two >b");
      const work = await vm.client.json<WorkView>("GET", "/vms/dev/work");
      assertEquals(work.units.map(({ repository, dir, files }) => [repository, dir, files.length]), [
        ["web", here("web"), 2],
        ["api", here("api"), 2],
        ["notes", here("notes"), 2],
      ]);
      const take = (repository: string, tree: string) =>
        vm.client.json<WorkTaken>("POST", "/vms/dev/work/take", {
          json: { units: [{ repository, path: "", tree, files: [{ file: 1 }] }] },
        });
      const tree = work.units[1].tree;
      assertEquals(await codeOf(take("other", tree)), "repo.no_change");
      const { branches } = await take("api", tree);
      assertEquals(branches.map(({ repository, branch }) => [repository, branch]), [["api", "sbx/dev"]]);
      assertEquals(await git(here("api"), "show", "sbx/dev:a", "sbx/dev:b"), "one\ntwo");
      assertEquals(await git(here("web"), "branch", "--list", "sbx/*"), "");
      assertEquals(await Deno.readTextFile(join(here("notes"), "a")), "one\n");
      // A state of all of them was kept first, by each of both requests the same.
      assertEquals((await statesOf(vm)).map(({ reason }) => reason), ["before work is taken"]);
      {
        await using pulled = await collectWork(vm.client, "dev", ["web"]);
        await pullWork(pulled);
      }
      assertEquals(await git(here("web"), "show", "sbx/dev:a", "sbx/dev:b"), "two\ntwo");
      assertEquals(await Deno.readTextFile(join(here("notes"), "a")), "one\n");
    }),
);

Deno.test(
  "a new file is shown to its end, and a take has a message and one branch",
  options,
  () =>
    withSources(async (vm, here) => {
      await sh(vm.inside("web"), "seq 1 20000 >long; echo two >a");
      const read = () => vm.client.json<WorkView>("GET", "/vms/dev/work");
      const { units: [{ files, tree }] } = await read();
      const [a, long] = files;
      assertEquals([a.path, long.path, long.is_cut], ["a", "long", false]);
      assert(long.text!.trimEnd().endsWith("\n+20000"));
      const take = (file: number, message?: string) =>
        vm.client.json<WorkTaken>("POST", "/vms/dev/work/take", {
          json: { units: [{ repository: "web", path: "", tree, files: [{ file }] }], message },
        });
      assertEquals((await take(0)).branches.map(({ branch }) => branch), ["sbx/dev"]);
      assertEquals((await take(1, " long: count\n\nto the end\n")).branches.map(({ branch }) => branch), [
        "sbx/dev",
      ]);
      assertEquals(
        await git(here("web"), "log", "--format=%B", "main..sbx/dev"),
        "long: count\n\nto the end\n\nWork of dev\n",
      );
      for (const message of ["", " ", "x".repeat(10_001)]) {
        assertEquals(await codeOf(take(1, message)), "request.invalid");
      }
      // A folder has no commit that a message could be of.
      const notes = (await read()).units[2];
      assertEquals([notes.repository, notes.files], ["notes", []]);
    }),
);

Deno.test(
  "states of all repositories are kept, listed and put back, and a second time nothing changes",
  options,
  () =>
    withSources(async (vm) => {
      assertEquals(await statesOf(vm), []);
      await keepState(vm.client, "dev", "before sbx pull");
      const same = await vm.client.json<StateKept>("POST", "/vms/dev/states/keep", {
        json: { reason: "again" },
      });
      assertEquals(same, {});
      await sh(vm.inside("web"), "echo two >a; git commit -qam two; git checkout -qb other");
      await sh(vm.inside("notes"), "rm a");
      const { to, before, changed } = await undo(vm, { number: 1 });
      assertEquals([to.number, before?.number, changed], [1, 2, true]);
      assertEquals(to.units.map(({ repository, path, branch }) => [repository, path, branch]), [
        ["web", "", "main"],
        ["api", "", "main"],
        ["notes", "", undefined],
      ]);
      assertEquals(await sh(vm.inside("web"), "cat a; git branch --show-current"), "one\nmain\n");
      assertEquals(await sh(vm.inside("notes"), "cat a"), "one\n");
      const states = await statesOf(vm);
      assertEquals((await undo(vm, { number: 1 })).changed, false);
      assertEquals(await statesOf(vm), states);
      assertEquals((await undo(vm)).to.number, 2);
      assertEquals(await sh(vm.inside("web"), "cat a; git branch --show-current"), "two\nother\n");
      // Before an event of its record: the state that was the newest then.
      const event = execEvent("rm -rf web");
      event.common.timestamp_unix_ms = states[1].at_unix_ms;
      await Deno.mkdir(dirname(vm.paths.ledger), { recursive: true });
      await using ledger = await Ledger.open(vm.paths.ledger, { sessionId: event.common.session_id });
      ledger.append({ event });
      await ledger.flush();
      await undo(vm, { number: 1 });
      assertEquals((await undo(vm, { event: event.common.event_id })).to.number, 2);
      assertEquals(await codeOf(undo(vm, { event: "0123456789ab" })), "event.not_found");
      for (
        const [json, code] of [
          [{ number: 99 }, "repo.no_state"],
          [{ before_unix_ms: 1 }, "repo.no_state"],
          [{ number: 1, before_unix_ms: 1 }, "request.invalid"],
          [{ number: "1" }, "request.invalid"],
          [{ event: "../x" }, "request.invalid"],
          [{ more: 1 }, "request.unknown_field"],
        ] as const
      ) assertEquals(await codeOf(undo(vm, json)), code, JSON.stringify(json));
      for (const reason of ["", "a\u001b[2J", "a".repeat(129)]) {
        const keep = vm.client.json("POST", "/vms/dev/states/keep", { json: { reason } });
        assertEquals(await codeOf(keep), "request.invalid");
      }
      assertEquals(await codeOf(vm.client.json("GET", "/vms/nobody/states")), "vm.not_found");
    }),
);

Deno.test(
  "a state is kept before each turn of an agent that finds another one, and no rule is asked about it",
  options,
  () =>
    withSources(async (vm) => {
      await keepState(vm.client, "dev", "before sbx pull");
      vm.exports.splice(0);
      const began = Date.now() - 60_000;
      await vm.turn(began);
      assertEquals((await statesOf(vm)).length, 1);
      await sh(vm.inside("api"), "echo turn >a");
      await vm.turn(began);
      await sh(vm.inside("api"), "echo later >a");
      const [, state] = await statesOf(vm);
      assertEquals([state.number, state.turn, state.at_unix_ms], [2, true, began]);
      assertEquals(vm.exports.map(([how]) => how), ["observed"]);
      assert(vm.exports[0][1].startsWith("/workspace/.sbx-out-"));
      assertEquals((await undo(vm, { number: 2 })).to.reason, "before a turn of the agent");
      assertEquals(await sh(vm.inside("api"), "cat a"), "turn\n");
      // Two at once: the second goes on without.
      await sh(vm.inside("api"), "echo more >a");
      const count = (await statesOf(vm)).length;
      await Promise.all([vm.turn(), vm.turn()]);
      assertEquals((await statesOf(vm)).length, count + 1);
      // Nothing is kept, and the turn goes on all the same.
      await Deno.writeTextFile(join(vm.room, "undo/states.json"), "no json");
      await vm.turn();
    }),
);
