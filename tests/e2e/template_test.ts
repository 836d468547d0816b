/** VMs that start from the memory of a guest that was booted once. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";
import { requireFirstPrograms } from "./activity_steps.ts";
import { requireClock } from "./clock_steps.ts";

/** Programs whose random numbers a copy of a machine would repeat. */
const RANDOM = {
  kernel: ["head", "-c", "16", "/dev/urandom"],
  openssl: ["openssl", "rand", "-hex", "16"],
  python: ["python3", "-c", "import secrets; print(secrets.token_hex(16))"],
  node: ["node", "-e", "console.log(crypto.randomUUID())"],
  deno: ["deno", "eval", "console.log(crypto.randomUUID(), Math.random())"],
  boot: ["cat", "/proc/sys/kernel/random/boot_id"],
  machine: ["cat", "/etc/machine-id"],
};

Deno.test("VMs start from a template", async (t) => {
  const home = await Deno.makeTempDir({ prefix: "sbx-" });
  const templates = join(home, "templates");
  const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: templates } });
  const startOf = async (name: string) => {
    const { started_by, started_why } = JSON.parse(await sbx.ok("info", name, "--json"));
    return [started_by, started_why];
  };
  try {
    await t.step("the first VM boots, and says why; the template is made meanwhile", async () => {
      await sbx.ok("create", "first");
      assertEquals(await startOf("first"), ["cold", "there is no template for it yet"]);
      await requireFirstPrograms(sbx, "first");
      await requireClock(sbx, "first");
      await eventually("the template is there", async () => {
        const { templates } = JSON.parse(await sbx.ok("template", "list", "--json"));
        return templates.length === 1;
      }, 180);
      await sbx.ok("delete", "first");
    });

    await t.step(
      "later VMs start from it, with a disk, a name, a clock and a workspace of their own",
      async () => {
        await Promise.all([sbx.ok("create", "a", "-e", "WHO=a"), sbx.ok("create", "b")]);
        assertEquals(await startOf("a"), ["template", undefined]);
        await requireFirstPrograms(sbx, "a");
        await requireClock(sbx, "a");
        assertStringIncludes(await sbx.ok("info", "a"), "from a template");
        const line =
          'echo "$WHO $(hostname) $(getent hosts "$(hostname)" | wc -l)"; touch /root/mine /workspace/mine; ' +
          "mount | grep -E ' on (/|/workspace) ' | cut -d' ' -f5";
        const [greeting, root, workspace] = (await sbx.ok("exec", "a", "--", "sh", "-c", line))
          .trim().split("\n");
        assertEquals([greeting, root, workspace], ["a a 1", "overlay", "virtiofs"]);
        assertEquals(
          await sbx.ok("exec", "b", "--", "sh", "-c", "ls /root/mine /workspace/mine 2>/dev/null; true"),
          "",
        );
        assertStringIncludes(await sbx.ok("exec", "a", "--", "df", "-h", "/root/mine"), " 20G ");
      },
    );

    await t.step("no two draw the same random numbers", async () => {
      for (const [what, argv] of Object.entries(RANDOM)) {
        const [a, b] = await Promise.all(["a", "b"].map((name) => sbx.ok("exec", name, "--", ...argv)));
        assert(a !== b && a.length > 8, `${what}: ${a} ${b}`);
      }
    });

    await t.step("the network works in it as in any other VM, and namespaces of users are off", async () => {
      const unshare = (option: string) => sbx.cli("exec", "a", "--", "unshare", option, "true");
      assertEquals((await unshare("--net")).code, 0);
      const { code, stderr } = await unshare("--user");
      assertEquals([code, /No space left on device/.test(stderr)], [1, true], stderr);
      const line = "getent hosts nowhere.invalid || echo refused";
      assertStringIncludes(await sbx.ok("exec", "a", "--", "sh", "-c", line), "refused");
      assertStringIncludes(await sbx.ok("events", "a"), "nowhere.invalid");
    });

    await t.step("a VM that was paused has the time of its host", async () => {
      await sbx.ok("pause", "a");
      await sbx.ok("resume", "a");
      await requireClock(sbx, "a");
    });

    await t.step("a VM that was stopped starts from it too, with its disk", async () => {
      await sbx.ok("exec", "a", "--", "sh", "-c", "echo kept >/root/kept");
      await sbx.ok("stop", "a");
      await sbx.ok("start", "a");
      assertEquals((await startOf("a"))[0], "template");
      assertEquals(await sbx.ok("exec", "a", "--", "cat", "/root/kept"), "kept\n");
    });

    const [id] = [...Deno.readDirSync(templates)].map(({ name }) => name);
    await t.step("a template with flipped bytes is removed, and the VM boots", async () => {
      await overwrite(imageFile(join(templates, id), "ram"), 64 * 1024 * 1024);
      await sbx.ok("create", "c");
      const [by, why] = await startOf("c");
      assertEquals(by, "cold");
      assertStringIncludes(why, "damaged");
      await sbx.ok("delete", "c");
      await sbx.ok("template", "make");
    });

    await t.step("with the setting off, VMs boot", async () => {
      await sbx.ok("settings", "set", "vm.templates.enabled", "false");
      await sbx.ok("delete", "b");
      await sbx.ok("create", "b");
      assertEquals(await startOf("b"), ["cold", "vm.templates.enabled is off"]);
      assertStringIncludes(await sbx.ok("status"), "off (vm.templates.enabled)");
      const { code, stderr } = await sbx.cli("template", "make");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "sbx settings set vm.templates.enabled true");
    });

    await t.step("it can be removed, once", async () => {
      await sbx.ok("template", "remove", id);
      const { code, stderr } = await sbx.cli("template", "remove", id);
      assertEquals(code, 1);
      assertStringIncludes(stderr, `there is no template ${id}`);
    });
  } finally {
    await sbx.dispose();
  }
});

function imageFile(dir: string, name: string): string {
  return join(dir, JSON.parse(Deno.readTextFileSync(join(dir, "template.json"))).image, name);
}

async function overwrite(path: string, at: number): Promise<void> {
  using file = await Deno.open(path, { write: true });
  await file.seek(at, Deno.SeekMode.Start);
  await file.write(new Uint8Array(4096).fill(0xa5));
}
