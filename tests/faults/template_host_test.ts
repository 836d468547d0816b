/**
 * Templates where the host has no room, no time or no luck. Each makes a template
 * again: too long for `make test`.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test({
  name: "templates on a disk that is full or cannot be written to",
  ignore: Deno.uid() !== 0,
  fn: (t) =>
    onDisk(64, async (sbx, templates) => {
      await t.step("one that has no room says so and leaves nothing; VMs boot, and say why", async () => {
        const { code, stderr } = await sbx.cli("template", "make");
        assertEquals(code, 1);
        assertStringIncludes(stderr, "is the disk or the memory full?");
        assertEquals([...Deno.readDirSync(templates)], []);
        assertEquals(runDirs(sbx), []);
        await sbx.ok("create", "cold");
        const { started_by, started_why } = JSON.parse(await sbx.ok("info", "cold", "--json"));
        assertEquals(started_by, "cold");
        assertStringIncludes(started_why, "is the disk or the memory full?");
        const status = await sbx.cli("status");
        assertEquals(status.code, 1, "an issue");
        assertStringIncludes(status.stdout, "is the disk or the memory full?");
      });

      await t.step("with room it is made", async () => {
        await remount(templates, "size=2g");
        await sbx.ok("template", "make");
        assertEquals([...Deno.readDirSync(templates)].length, 1);
      });

      await t.step(
        "VMs start from a folder that is read-only, and nothing can be made or removed",
        async () => {
          await remount(templates, "ro");
          await sbx.ok("create", "warm");
          assertEquals(JSON.parse(await sbx.ok("info", "warm", "--json")).started_by, "template");
          const { code, stderr } = await sbx.cli("template", "make", "--json");
          assertEquals([code, stderr], [0, ""], "it is there");
        },
      );
    }),
});

Deno.test("a machine that ends or hangs while it takes over its template is killed, and the VM boots", async () => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: join(home, "templates") }, spare: false });
  const restoring = async () =>
    (await sbx.pids("qemu-system", home)).filter((pid) => commandLine(pid).includes("\0-incoming\0"));
  try {
    for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
      await sbx.ok("template", "make");
      const creating = sbx.ok("create", "hit");
      let hit: number[] = [];
      while (hit.length === 0) hit = await restoring();
      for (const pid of hit) Deno.kill(pid, signal);
      await creating;
      const { started_by, started_why } = JSON.parse(await sbx.ok("info", "hit", "--json"));
      assertEquals(started_by, "cold", signal);
      assertStringIncludes(started_why, "its template failed: the machine could not be started from memory");
      assertEquals([await restoring(), (await sbx.pids("qemu-system", home)).length], [[], 1]);
      await sbx.ok("delete", "hit");
    }
  } finally {
    await sbx.dispose();
  }
});

Deno.test("a template with devices that are cut off is removed, and the VM boots", async () => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const templates = join(home, "templates");
  const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: templates }, spare: false });
  try {
    await sbx.ok("template", "make");
    const [{ name: id }] = Deno.readDirSync(templates);
    const { image } = JSON.parse(Deno.readTextFileSync(join(templates, id, "template.json")));
    await Deno.truncate(join(templates, id, image, "state"), 1000);
    await sbx.ok("create", "hit");
    const { started_by, started_why } = JSON.parse(await sbx.ok("info", "hit", "--json"));
    assertEquals(started_by, "cold");
    assertStringIncludes(started_why, "damaged");
  } finally {
    await sbx.dispose();
  }
});

function commandLine(pid: number): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`);
  } catch {
    return "";
  }
}

/** Runs a test whose templates are on a small disk of their own. */
async function onDisk(
  megabytes: number,
  work: (sbx: Sbx, templates: string) => Promise<void>,
): Promise<void> {
  const templates = await Deno.makeTempDir({ prefix: "sbx-" });
  const args = ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0700`, "sbx-test", templates];
  if (!(await runChild("mount", { args })).success) throw new Error("mounting a tmpfs failed");
  const sbx = await Sbx.make({ env: { SBX_TEMPLATES_DIR: templates } });
  try {
    await work(sbx, templates);
  } finally {
    await sbx.dispose();
    await runChild("umount", { args: ["--lazy", templates] });
    await Deno.remove(templates, { recursive: true });
  }
}

async function remount(path: string, option: string): Promise<void> {
  const { success } = await runChild("mount", { args: ["-o", `remount,${option}`, path] });
  assert(success, `remounting with ${option}`);
}

function runDirs({ home }: Sbx): string[] {
  return [...Deno.readDirSync(join(home, "run"))].map(({ name }) => name).filter((name) =>
    name.startsWith("t-")
  );
}
