import { assert, assertEquals } from "@std/assert";
import { command } from "../../../cmd/sbx/vm/fork.ts";
import { FORK_COUNT_MAX } from "../../../lib/client/api/mod.ts";
import { loadedAtOnce } from "../../helper/repo.ts";

Deno.test("sbx fork allows as many VMs as the service", () => {
  const about = command.options?.find(({ name }) => name === "count")?.about;
  assert(about?.includes(`at most ${FORK_COUNT_MAX};`), about);
});

Deno.test("commands of daily work load no schemas of the API", async () => {
  for (const name of ["list", "exec", "fork", "stop", "start", "cp", "shell", "jobs", "delete"]) {
    const folder = name === "cp" ? "files" : "vm";
    const loaded = [...await loadedAtOnce(`cmd/sbx/${folder}/${name}.ts`)];
    assertEquals(loaded.filter((path) => /zod|lib\/client\/api\/(?:common|schema)\.ts/.test(path)), [], name);
  }
});
