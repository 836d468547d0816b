/** Which VM starts from which template, and what happens when something changes meanwhile. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { type TemplateFor, Templates } from "../../../lib/service/vm/templates.ts";
import { set, withBoot } from "../../helper/boot.ts";
import { TemplateHost } from "../../helper/template_host.ts";

const GIB = 1024 ** 3;
const COLD = {
  state: "Running" as const,
  boot_stages: [],
  pid: 1,
  started: { by: "cold" as const, why: "why" },
};

interface World {
  host: TemplateHost;
  templates: Templates;
  machine: TemplateFor;
  home: Home;
  /** writes settings.toml or corp.toml, in force at once */
  put(file: "user" | "corp", id: string, value: unknown): Promise<void>;
}

const withTemplates = (run: (world: World) => Promise<void>) =>
  withBoot(async ({ home, settings, boot, user, corp }) => {
    const host = new TemplateHost();
    await Deno.mkdir(home.runDir);
    const { assets } = await boot();
    const templates = new Templates({ home, settings, hypervisor: host.hypervisor });
    const machine = { cpus: 1, ram_mb: 512, accelerator: "tcg" as const, assets };
    const put: World["put"] = async (file, id, value) => {
      await (file === "user" ? user : corp)(set(id, value));
      await settings.reload();
    };
    await run({ host, templates, machine, home, put });
    assertEquals([host.running, [...Deno.readDirSync(home.runDir)].length], [0, 0]);
  });

const idsOf = async (templates: Templates) => (await templates.list()).map(({ id }) => id);
const hidden = (home: Home) =>
  [...Deno.readDirSync(home.templatesDir)].map(({ name }) => name).filter((name) => name.startsWith("."));

Deno.test(
  "a template that is asked for twice at once is made once; one that is there is kept",
  withTemplates(async ({ host, templates, machine }) => {
    const [a, b] = await Promise.all([templates.make(machine), templates.make(machine)]);
    assertEquals([a.imageDir, host.started], [b.imageDir, 1]);
    assertEquals([(await templates.make(machine)).imageDir, host.started], [a.imageDir, 1]);
    assertEquals(await templates.startOf(machine), { from: "template", dir: a.imageDir });
  }),
);

Deno.test(
  "a hypervisor without templates: VMs boot, none is made, and both say why",
  withTemplates(async ({ host, templates, machine }) => {
    host.lack = "nothing can be plugged in";
    assertEquals(await templates.startOf(machine), { from: "kernel", why: "nothing can be plugged in" });
    const error = await assertRejects(() => templates.make(machine), SbxError, "nothing can be plugged in");
    assertEquals([error.code, host.started, (await templates.status()).enabled], [
      "vm.not_supported",
      0,
      false,
    ]);
  }),
);

Deno.test(
  "a VM that booted while its template was made does not remove it",
  withTemplates(async ({ templates, machine }) => {
    const start = await templates.startOf(machine);
    const { imageDir } = await templates.make(machine);
    await templates.started(machine, start, COLD);
    assertEquals(await templates.startOf(machine), { from: "template", dir: imageDir });
  }),
);

Deno.test(
  "a template that fails is removed; a second failure ends its use, and says why",
  withTemplates(async ({ templates, machine }) => {
    for (const failures of [1, 2]) {
      await templates.make(machine);
      const start = await templates.startOf(machine);
      assertEquals(start.from, "template", `before failure ${failures}`);
      await templates.started(machine, start, COLD);
      assertEquals(await idsOf(templates), []);
    }
    assertEquals(await templates.startOf(machine), { from: "kernel", why: "why" });
    assertEquals((await templates.status()).problems, ["why"]);
    await templates.make(machine);
    assertEquals((await templates.startOf(machine)).from, "template", "a person may try again");
  }),
);

Deno.test(
  "a VM whose template was removed or made again meanwhile blames neither",
  withTemplates(async ({ templates, machine }) => {
    const { id } = await templates.make(machine);
    const starts = await Promise.all(Array.from({ length: 10 }, () => templates.startOf(machine)));
    await templates.remove(id);
    for (const start of starts) await templates.started(machine, start, COLD);
    const { imageDir } = await templates.make(machine);
    for (const start of starts) await templates.started(machine, start, COLD);
    assertEquals(await templates.startOf(machine), { from: "template", dir: imageDir });
  }),
);

Deno.test(
  "ten VMs that fail with one template at once are one failure",
  withTemplates(async ({ templates, machine }) => {
    await templates.make(machine);
    const starts = await Promise.all(Array.from({ length: 10 }, () => templates.startOf(machine)));
    for (const start of starts) await templates.started(machine, start, COLD);
    assertEquals((await templates.status()).problems, []);
  }),
);

Deno.test(
  "a template that corp switches off while it is made is not kept, and can be made later",
  withTemplates(async ({ host, templates, machine, home, put }) => {
    host.onSnapshot = () => put("corp", "vm.templates.enabled", false);
    const { code } = await assertRejects(() => templates.make(machine), SbxError);
    assertEquals([code, await idsOf(templates), hidden(home)], ["template.off", [], []]);
    assertEquals(await templates.startOf(machine), { from: "kernel", why: "vm.templates.enabled is off" });
    host.onSnapshot = () => {};
    await put("corp", "vm.templates.enabled", true);
    await templates.make(machine);
    assertEquals((await templates.startOf(machine)).from, "template");
  }),
);

Deno.test(
  "a template that waits for another one is not made after the setting is off",
  withTemplates(async ({ host, templates, machine, put }) => {
    host.onSnapshot = () => put("user", "vm.templates.enabled", false);
    const both = [templates.make(machine), templates.make({ ...machine, cpus: 2 })];
    for (const made of both) await assertRejects(() => made, SbxError, "vm.templates.enabled is off");
    assertEquals(host.started, 1);
  }),
);

Deno.test(
  "over the limit the oldest template is removed, never the newest or one that a VM reads",
  withTemplates(async ({ templates, machine, home, put }) => {
    await put("user", "vm.templates.max_gb", 1);
    const boards = [1, 2, 3, 4].map((cpus) => ({ ...machine, cpus }));
    const [first, second] = [await templates.make(boards[0]), await templates.make(boards[1])];
    for (const template of [first, second]) await claim(home, template.id, GIB / 2);
    await templates.startOf(boards[0]);
    const third = await templates.make(boards[2]);
    assertEquals(await idsOf(templates), [first.id, third.id]);
    await claim(home, third.id, 2 * GIB);
    const fourth = await templates.make(boards[3]);
    assertEquals(await idsOf(templates), [first.id, fourth.id]);
  }),
);

Deno.test(
  "a template whose making breaks off leaves nothing, and says why until it is made",
  withTemplates(async ({ host, templates, machine, home }) => {
    host.onSnapshot = () => Promise.reject(new Error("no space"));
    await assertRejects(() => templates.make(machine), SbxError, "was not written: no space");
    assertEquals(hidden(home), []);
    const start = await templates.startOf(machine);
    assert(start.from === "kernel" && start.why.includes("no space"));
    host.onSnapshot = () => {};
    await templates.make(machine);
    assertEquals((await templates.startOf(machine)).from, "template");
  }),
);

Deno.test(
  "another build of QEMU or another processor: a template of its own, and the old one is removed at the start",
  withTemplates(async ({ host, templates, machine }) => {
    const { id } = await templates.make(machine);
    for (const [field, value] of Object.entries({ hypervisor: "qemu 2", processor: "q", machine: "n" })) {
      host.identityNow = { ...host.identityNow, [field]: value };
      assertEquals((await templates.startOf(machine)).from, "kernel", field);
    }
    const other = await templates.make(machine);
    assertEquals((await idsOf(templates)).sort(), [id, other.id].sort());
    await templates.clean();
    assertEquals(await idsOf(templates), [other.id]);
  }),
);

Deno.test(
  "a service removes what one that was killed left, before it makes anything",
  withTemplates(async ({ templates, machine, home }) => {
    const left = [join(home.runDir, "t-abc"), join(home.templatesDir, ".making-abc", "image-1")];
    for (const dir of left) await Deno.mkdir(dir, { recursive: true });
    await Deno.chmod(home.templatesDir, 0o700);
    await Promise.all([templates.clean(), templates.make(machine)]);
    assertEquals([hidden(home), (await idsOf(templates)).length], [[], 1]);
  }),
);

for (const file of ["kernel", "initrd", "rootfs"] as const) {
  Deno.test(
    `a template whose ${file} is not installed any more is removed`,
    withTemplates(async ({ templates, machine }) => {
      const { id } = await templates.make(machine);
      await templates.clean();
      assertEquals(await idsOf(templates), [id]);
      await Deno.remove(machine.assets[file].path);
      await templates.clean();
      assertEquals(await idsOf(templates), []);
    }),
  );
}

Deno.test(
  "two homes that share a folder: each makes and uses them, and neither removes the other's",
  withTemplates(async ({ host, templates, machine, home }) => {
    await withTemplates(async (other) => {
      const shared = new Templates({
        home: { ...other.home, templatesDir: home.templatesDir },
        settings: { inForce: () => undefined } as never,
        hypervisor: host.hypervisor,
      });
      const mine = await templates.make(machine);
      assertEquals(await shared.startOf(other.machine), { from: "template", dir: mine.imageDir });
      await Deno.remove(other.machine.assets.rootfs.path);
      await shared.clean();
      assertEquals(await idsOf(shared), [mine.id]);
    })();
  }),
);

/** Makes a template's record say that it takes this much of the disk. */
async function claim({ templatesDir }: Home, id: string, bytes: number): Promise<void> {
  const path = join(templatesDir, id, "template.json");
  const record = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify({ ...record, files: [{ ...record.files[0], bytes }] }));
}
