/** The sbx-process that waits for the next VM. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { NO_SESSION } from "../../lib/ipc/mod.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";

/** Processes of a home that wait for a session. */
function waiting({ home }: Sbx): number[] {
  const read = (path: string) => {
    try {
      return Deno.readTextFileSync(path).split("\0");
    } catch {
      return [];
    }
  };
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name)
    .filter((name) => /^\d+$/.test(name) && read(`/proc/${name}/cmdline`).includes(NO_SESSION))
    .filter((name) => read(`/proc/${name}/environ`).includes(`SBX_HOME=${home}`))
    .map(Number);
}

Deno.test("a process waits for the next VM", async (t) => {
  const sbx = await Sbx.make();
  const oneWaits = async () => {
    await eventually("one process waits", () => waiting(sbx).length === 1);
    return waiting(sbx)[0];
  };
  const create = async (name: string): Promise<{ id: string; pid: number }> => {
    await sbx.ok("create", name);
    return JSON.parse(await sbx.ok("info", name, "--json"));
  };
  try {
    await t.step("not before the first VM was started, and one only", async () => {
      await sbx.ok("start");
      assertEquals(waiting(sbx), []);
      await Promise.all([create("a"), create("b")]);
      await oneWaits();
    });

    await t.step(
      "it becomes the next VM's, and cannot be told from one that was started for it",
      async () => {
        const spare = await oneWaits();
        const { id, pid } = await create("c");
        assertEquals(pid, spare);
        const command = Deno.readTextFileSync(`/proc/${pid}/cmdline`);
        assertStringIncludes(command, `\0process\0${id}\0`);
        for (const stream of [1, 2]) {
          assertEquals(
            Deno.readLinkSync(`/proc/${pid}/fd/${stream}`),
            `${sbx.home}/sessions/${id}/logs/process.log`,
          );
        }
        assertEquals((await sbx.ok("exec", "c", "--", "echo", "hello")).trim(), "hello");
        await oneWaits();
      },
    );

    await t.step("one that was killed, and one of a replaced program, is not used", async () => {
      Deno.kill(await oneWaits(), "SIGKILL");
      await create("d");
      const outdated = await oneWaits();
      await touch(fromRoot("main.ts"));
      assertNotEquals((await create("e")).pid, outdated);
      await eventually("it has ended", () => !waiting(sbx).includes(outdated));
    });

    await t.step("it ends with the service, also one that is killed; the VMs go on", async () => {
      await oneWaits();
      Deno.kill(sbx.pid("service"), "SIGKILL");
      await eventually("none waits", () => waiting(sbx).length === 0);
      assertEquals((await sbx.ok("exec", "c", "--", "echo", "still")).trim(), "still");
      await create("f");
      await oneWaits();
    });
  } finally {
    await sbx.dispose();
  }
  assert(waiting(sbx).length === 0);
});

/** Changes nothing but the time of a file's last change. */
async function touch(path: string): Promise<void> {
  const { mode } = await Deno.stat(path);
  await Deno.chmod(path, mode! & 0o7777);
}
