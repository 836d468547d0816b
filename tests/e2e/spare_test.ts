/** The sbx-process that waits for the next VM. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { NO_SESSION } from "../../lib/session/ipc/mod.ts";
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
  const create = async (name: string, ...options: string[]): Promise<{ id: string; pid: number }> => {
    await sbx.ok("create", name, ...options);
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

    /** Id of the session that a machine waits for; its guest may not have connected yet. */
    const machine = async (): Promise<string> => {
      let id: string | undefined;
      await eventually("a machine waits", async () => {
        id = sbx.spareMachines()[0];
        return id !== undefined && (await sbx.pids("qemu-system", id)).length === 1;
      });
      return id!;
    };

    await t.step("it has a machine, which becomes the next VM's", async () => {
      const id = await machine();
      const { stdout } = await sbx.cli("list", "--json");
      assert(!stdout.includes(id), "it is no VM");
      assertStringIncludes(await sbx.ok("status"), "one machine of 1 GiB is started for the next VM");
      const [qemu] = await sbx.pids("qemu-system", id);
      const given = await sbx.ok("create", "g", "-e", "WHO=g", "--json");
      assertEquals(JSON.parse(given).id, id);
      assertEquals(await sbx.pids("qemu-system", id), [qemu]);
      const info = JSON.parse(await sbx.ok("info", "g", "--json"));
      assertEquals(info.started_by, "template");
      const line = 'echo "$WHO $(hostname)"; touch /workspace/shared; df -h /root | tail -1';
      const output = await sbx.ok("exec", "g", "--", "sh", "-c", line);
      assertStringIncludes(output, "g g\n");
      assertStringIncludes(output, "20G");
      assertEquals([...Deno.readDirSync(`${sbx.home}/sessions/${id}/workspace`)].map(({ name }) => name), [
        "shared",
      ]);
      assertEquals(sbx.spareMachines().includes(id), false);
      await sbx.ok("delete", "g");
      assertEquals(await sbx.left(id), []);
    });

    await t.step(
      "two VMs at once, one of another size, and one that was refused do not share it",
      async () => {
        const id = await machine();
        assertEquals((await sbx.cli("create", "c")).code, 1);
        assertEquals(await machine(), id);
        const [big, other] = await Promise.all([create("big", "--ram", "1536"), create("other")]);
        const memory = await sbx.ok("exec", "big", "--", "sh", "-c", "grep MemTotal /proc/meminfo");
        assert(Number(/\d+/.exec(memory)) > 1_200_000, memory);
        assertEquals((await sbx.ok("exec", "other", "--", "hostname")).trim(), "other");
        if (![big.id, other.id].includes(id)) {
          await eventually("it is gone", async () => (await sbx.left(id)).length === 0);
        }
        for (const name of ["big", "other"]) await sbx.ok("delete", name);
      },
    );

    await t.step("one whose machine was killed is replaced by another start", async () => {
      const id = await machine();
      Deno.kill((await sbx.pids("qemu-system", id))[0], "SIGKILL");
      await create("h");
      assertEquals((await sbx.ok("exec", "h", "--", "echo", "started")).trim(), "started");
      await sbx.ok("delete", "h");
    });

    await t.step("without the setting, none waits, and the one that does is not used", async () => {
      const id = await machine();
      await sbx.ok("settings", "set", "vm.templates.spare", "false");
      assertNotEquals((await create("i")).id, id);
      await sbx.ok("delete", "i");
      await oneWaits();
      assertEquals(sbx.spareMachines(), []);
      await sbx.ok("settings", "set", "vm.templates.spare", "true");
      await create("j");
      await machine();
    });

    await t.step("it ends with the service, also one that is killed; the VMs go on", async () => {
      await oneWaits();
      const id = await machine();
      Deno.kill(sbx.pid("service"), "SIGKILL");
      await eventually("none waits", () => waiting(sbx).length === 0);
      assertEquals([sbx.spareMachines(), await sbx.left(id)], [[], []]);
      assertEquals((await sbx.ok("exec", "c", "--", "echo", "still")).trim(), "still");
      await create("f");
      await oneWaits();
    });
    await t.step("a home that is removed leaves nothing running", async () => {
      const { id, pid } = await create("last");
      const programs = [pid, sbx.pid("service"), sbx.pid("gateway"), ...await sbx.pids("qemu-system", id)];
      await Deno.rename(sbx.home, `${sbx.home}.removed`);
      const runs = (pid: number) => Deno.lstat(`/proc/${pid}`).then(() => true, () => false);
      await eventually("all have ended", async () => !(await Promise.all(programs.map(runs))).includes(true));
      assertEquals([waiting(sbx), await sbx.left(id)], [[], []]);
    });
  } finally {
    await Deno.rename(`${sbx.home}.removed`, sbx.home).catch(() => {});
    await sbx.dispose();
  }
  assertEquals(waiting(sbx), []);
});

/** Changes nothing but the time of a file's last change. */
async function touch(path: string): Promise<void> {
  const { mode } = await Deno.stat(path);
  await Deno.chmod(path, mode! & 0o7777);
}
