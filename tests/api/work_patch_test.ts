/** Folders brought in and patches of work, by the API of the whole service. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import type { RepositoryBrought, WorkPatch } from "../../lib/client/api/mod.ts";
import type { SbxError } from "../../lib/base/error/mod.ts";
import { git, sh } from "../helper/repository.ts";
import { RepositoryVm } from "../helper/repository_vm.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test(
  "a folder is brought in, and its work is a patch that git applies, with binary files",
  options,
  async () => {
    await using vm = await RepositoryVm.make();
    const here = join(vm.dir, "person", "web");
    await Deno.mkdir(here, { recursive: true });
    await sh(
      here,
      "echo one >a; printf '\\0\\377' >b; echo gone >c; git init -q -b main; git add -A; git commit -qm first",
    );
    const json = { dir: here, place: vm.inside("web") };
    const brought = await vm.client.json<RepositoryBrought>("POST", "/vms/dev/repositories", { json });
    assertEquals([brought.name, brought.place, brought.branch, brought.is_repository], [
      "web",
      vm.inside("web"),
      "main",
      true,
    ]);
    const patchOf = async () => {
      const { units } = await vm.client.json<WorkPatch>("GET", "/vms/dev/work/patch");
      assertEquals(units.map(({ repository, dir, path }) => [repository, dir, path]), [["web", here, ""]]);
      return Uint8Array.fromBase64(units[0].patch);
    };
    assertEquals((await patchOf()).length, 0);
    await sh(
      vm.inside("web"),
      "echo zwei: ü >a; printf '\\1\\0\\376' >b; rm c; echo new >d; git add -A; git commit -qm second",
    );
    await sh(vm.inside("web"), "echo drei >>a");
    const before = vm.exports.length;
    const patch = join(vm.dir, "work.patch");
    await Deno.writeFile(patch, await patchOf());
    // A look asks the rules, and is no event of the VM.
    assertEquals(vm.exports.slice(before).filter(([kind]) => kind === "observed"), []);
    await git(here, "apply", patch);
    for (const name of ["a", "b", "d"]) {
      assertEquals(
        await Deno.readFile(join(here, name)),
        await Deno.readFile(join(vm.inside("web"), name)),
        name,
      );
    }
    assertEquals((await git(here, "status", "--short", "c")).trim(), "D c");
  },
);

Deno.test(
  "a folder that is not there, and a relative one, are refused; without imports there is no patch",
  options,
  async () => {
    await using vm = await RepositoryVm.make();
    const codeOf = (method: string, path: string, json?: unknown) =>
      vm.client.json(method, path, { json }).then(() => "none", (error) => (error as SbxError).code);
    assertEquals(await codeOf("GET", "/vms/dev/work/patch"), "repo.none");
    assertEquals(await codeOf("POST", "/vms/dev/repositories", { dir: "web" }), "request.invalid");
    assertEquals(
      await codeOf("POST", "/vms/dev/repositories", { dir: "/no/such/folder" }),
      "project.invalid",
    );
  },
);
