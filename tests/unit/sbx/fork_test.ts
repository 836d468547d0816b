import { assert, assertEquals, assertRejects } from "@std/assert";
import { command } from "../../../cmd/sbx/vm/fork.ts";
import { FORK_COUNT_MAX } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parse } from "../../helper/sbx_command.ts";
import { loadedAtOnce } from "../../helper/repo.ts";

Deno.test("sbx fork allows as many VMs as the service", () => {
  const about = command.options?.find(({ name }) => name === "count")?.about;
  assert(about?.includes(`at most ${FORK_COUNT_MAX};`), about);
});

Deno.test("sbx fork --at takes a snapshot or the number of a state, and names the list otherwise", async () => {
  for (const at of ["x", "0", "s123", "s3f2a9c5g", "1.5"]) {
    const args = await parse(command, ["demo", "--at", at]);
    const error = await assertRejects(() => command.run(args), SbxError);
    assertEquals([error.code, error.hint], [
      "usage.invalid",
      "sbx undo demo --list shows snapshots and states",
    ]);
  }
});

Deno.test("commands of daily work load no schemas of the API", async () => {
  for (const name of ["list", "exec", "fork", "stop", "start", "cp", "shell", "jobs", "delete"]) {
    const folder = name === "cp" ? "files" : "vm";
    const loaded = [...await loadedAtOnce(`cmd/sbx/${folder}/${name}.ts`)];
    assertEquals(loaded.filter((path) => /zod|lib\/client\/api\/(?:common|schema)\.ts/.test(path)), [], name);
  }
});
