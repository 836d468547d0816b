/** What a search of sbx learn --minimise leaves when its process is killed goes with the next one. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { removeLeftTrials } from "../../../cmd/sbx/rules/learn_least.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { exists } from "../../helper/exists.ts";

Deno.test("VM and profile of a killed search are removed; another search and a VM of that name stay", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const ids = ["learn-killed00", "learn-running0", "learn-other000", "learn-novm0000"];
    for (const id of ids) {
      await Deno.mkdir(join(dir, "profiles", id), { recursive: true });
      await Deno.mkdir(join(home.runDir, "learn"), { recursive: true });
      await Deno.writeTextFile(join(home.runDir, "learn", id), "");
    }
    using running = await Deno.open(join(home.runDir, "learn", ids[1]), { write: true });
    await running.lock(true);
    const vms = [
      { id: "1", name: ids[0], profile_id: ids[0] },
      { id: "2", name: ids[1], profile_id: ids[1] },
      // A person's VM, with the name of a trial.
      { id: "3", name: ids[2], profile_id: "code" },
    ];
    const deleted: string[] = [];
    const json = (method: string, path: string) => {
      if (method === "DELETE") deleted.push(path);
      return Promise.resolve({ vms });
    };
    await removeLeftTrials({ json } as unknown as Parameters<typeof removeLeftTrials>[0], home);
    assertEquals(deleted, ["/vms/1/delete?force=true"]);
    const left = Array.from(Deno.readDirSync(join(home.runDir, "learn")), ({ name }) => name);
    assertEquals(left, [ids[1]]);
    for (const id of ids) assertEquals(await exists(join(dir, "profiles", id)), id === ids[1], id);
    await removeLeftTrials({ json } as unknown as Parameters<typeof removeLeftTrials>[0], home);
    assertEquals(deleted.length, 1);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
