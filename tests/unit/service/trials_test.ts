/** The service removes what a search of sbx learn --minimise leaves when its process is killed. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { trialsDir } from "../../../lib/config/profile/mod.ts";
import { sweepTrials, type TrialParts } from "../../../lib/service/vm/trials.ts";
import { exists } from "../../helper/exists.ts";

Deno.test("VM and profile of a killed search are removed; another search and a VM of that name stay", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const ids = ["learn-0000dead", "learn-0000feed", "learn-00000abc", "learn-00000001", "notes"];
    await Deno.mkdir(trialsDir(home), { recursive: true });
    for (const id of ids) {
      await Deno.mkdir(join(dir, "profiles", id), { recursive: true });
      await Deno.writeTextFile(join(trialsDir(home), id), "");
    }
    using running = await Deno.open(join(trialsDir(home), ids[1]), { write: true });
    await running.lock(true);
    const vms = [
      { id: "1", name: ids[0], profile_id: ids[0] },
      { id: "2", name: ids[1], profile_id: ids[1] },
      // A person's VM, with the name of a trial.
      { id: "3", name: ids[2], profile_id: "code" },
      { id: "4", name: "notes", profile_id: "notes" },
    ].map((record) => ({ record }));
    const deleted: string[] = [];
    const parts = {
      home,
      registry: { all: () => vms },
      supervisor: {
        delete: ({ record }: typeof vms[number], how: { force: boolean; keeps?: boolean }) => {
          assertEquals(how, { force: true, keeps: false });
          deleted.push(record.id);
          return Promise.resolve();
        },
      },
    } as unknown as TrialParts;
    await sweepTrials(parts);
    assertEquals(deleted, ["1"]);
    const left = Array.from(Deno.readDirSync(trialsDir(home)), ({ name }) => name).sort();
    assertEquals(left, [ids[1], "notes"]);
    for (const id of ids) {
      assertEquals(await exists(join(dir, "profiles", id)), id === ids[1] || id === "notes", id);
    }
    await sweepTrials(parts);
    assertEquals(deleted.length, 1);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
