import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { templateId, type TemplateKey, TemplateStore } from "../../../../lib/machine/template/mod.ts";

const HASH = "0".repeat(64);
const KEY: TemplateKey = {
  arch: "x86_64",
  cpus: 2,
  ram_mb: 1024,
  accelerator: "tcg",
  assets: { kernel: HASH, initrd: HASH, rootfs: HASH },
  host: { hypervisor: "qemu 1", processor: "p", machine: "m" },
};

async function withStore(work: (store: TemplateStore, dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(new TemplateStore({ templatesDir: join(dir, "templates") }), join(dir, "templates"));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const write = (content: string) => async (dir: string) => {
  await Deno.writeTextFile(join(dir, "ram"), content);
  await Deno.writeTextFile(join(dir, "state"), "devices");
};

async function imageOf(dir: string): Promise<string> {
  return JSON.parse(await Deno.readTextFile(join(dir, "template.json"))).image;
}

async function edit(dir: string, from: string, to: string): Promise<void> {
  const path = join(dir, "template.json");
  await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replace(from, to));
}

Deno.test("a template is found by its key, and by no other", () =>
  withStore(async (store) => {
    assertEquals(await store.find(KEY), undefined);
    const made = await store.make(KEY, write("memory"));
    assertEquals(made.id, templateId(KEY));
    assertEquals((await store.find(KEY))?.imageDir, made.imageDir);
    const others: TemplateKey[] = [
      { ...KEY, cpus: 1 },
      { ...KEY, ram_mb: 512 },
      { ...KEY, accelerator: "kvm" },
      { ...KEY, assets: { ...KEY.assets, rootfs: "1".repeat(64) } },
      { ...KEY, assets: { ...KEY.assets, initrd: "1".repeat(64) } },
      { ...KEY, host: { ...KEY.host, hypervisor: "qemu 2" } },
      { ...KEY, host: { ...KEY.host, processor: "q" } },
      { ...KEY, host: { ...KEY.host, machine: "n" } },
    ];
    for (const other of others) assertEquals(await store.find(other), undefined);
    assertEquals(new Set(others.map(templateId)).size, others.length);
  }));

Deno.test("a template's folder and files are the user's alone", () =>
  withStore(async (store, dir) => {
    const { imageDir } = await store.make(KEY, write("memory"));
    for (const path of [dir, imageDir, join(imageDir, "..")]) {
      assertEquals((await Deno.stat(path)).mode! & 0o077, 0, path);
    }
  }));

Deno.test("a file that was written to is hashed again: the same content is good, another is damage", () =>
  withStore(async (store) => {
    const { imageDir } = await store.make(KEY, write("memory"));
    await Deno.writeTextFile(join(imageDir, "ram"), "memory");
    assertEquals((await store.find(KEY))?.imageDir, imageDir);
    await Deno.writeTextFile(join(imageDir, "ram"), "mEmory");
    const error = await assertRejects(() => store.find(KEY), SbxError, "ram does not match its hash");
    assertEquals(error.code, "template.damaged");
  }));

for (
  const [what, harm] of Object.entries({
    "no file": async (dir: string) => Deno.remove(join(dir, await imageOf(dir), "state")),
    "no record": (dir: string) => Deno.remove(join(dir, "template.json")),
    "a record that is cut off": (dir: string) => Deno.truncate(join(dir, "template.json"), 40),
    "a record of a later version": (dir: string) => edit(dir, "sbx.template.v1", "sbx.template.v2"),
    "a record with another key": (dir: string) => edit(dir, '"cpus": 2', '"cpus": 3'),
  })
) {
  Deno.test(`a template with ${what} is damaged, and can be made again`, () =>
    withStore(async (store, dir) => {
      const { id } = await store.make(KEY, write("memory"));
      await harm(join(dir, id));
      assertEquals((await assertRejects(() => store.find(KEY), SbxError)).code, "template.damaged");
      await store.make(KEY, write("memory"));
      assertEquals((await store.find(KEY))?.id, id);
    }));
}

Deno.test("a template whose making fails leaves nothing, and the one before stays", () =>
  withStore(async (store, dir) => {
    await store.make(KEY, write("first"));
    await assertRejects(
      () => store.make(KEY, () => Promise.reject(new Error("no space"))),
      Error,
      "no space",
    );
    assertEquals([...Deno.readDirSync(dir)].length, 1);
    assertEquals((await store.find(KEY))?.id, templateId(KEY));
  }));

Deno.test("what an earlier run left unfinished is removed; what is whole, or none of ours, is kept", () =>
  withStore(async (store, dir) => {
    const { id } = await store.make(KEY, write("memory"));
    for (const left of [".making-abc/image", ".removed-abc/image", "feedfacefeedface"]) {
      await Deno.mkdir(join(dir, left), { recursive: true });
    }
    const foreign = ["documents", ".ssh", "0123456789abcdef.txt"];
    for (const name of foreign) await Deno.mkdir(join(dir, name, "kept"), { recursive: true });
    assertEquals(await store.clean(), 3);
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name).sort(), [...foreign, id].sort());
  }));

Deno.test("a template that another service makes now is not removed, whatever the clock says", () =>
  withStore(async (store, dir) => {
    const made = await store.make(KEY, async (imageDir) => {
      await Deno.utime(join(imageDir, ".."), 0, 0);
      assertEquals(await new TemplateStore({ templatesDir: dir }).clean(), 0);
      await write("memory")(imageDir);
    });
    assertEquals((await store.find(KEY))?.imageDir, made.imageDir);
  }));

Deno.test("two services that make the same template both have it, and leave nothing else", () =>
  withStore(async (store, dir) => {
    const stores = Array.from({ length: 8 }, () => new TemplateStore({ templatesDir: dir }));
    const made = await Promise.all(stores.map((each) => each.make(KEY, write("memory"))));
    assertEquals(new Set(made.map(({ id }) => id)).size, 1);
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name), [made[0].id]);
    assertEquals((await store.find(KEY))?.id, made[0].id);
  }));

Deno.test("a template that is made again has another folder: memory and devices of two are never mixed", () =>
  withStore(async (store) => {
    const first = await store.make(KEY, write("first"));
    const second = await store.make(KEY, write("second"));
    assertEquals(first.id, second.id);
    await assertRejects(() => Deno.readTextFile(join(first.imageDir, "ram")), Deno.errors.NotFound);
    assertEquals(await Deno.readTextFile(join(second.imageDir, "ram")), "second");
  }));

Deno.test("a folder that others may write to is not used, neither through a link; the user's own is", () =>
  withStore(async (store, dir) => {
    await store.make(KEY, write("memory"));
    const link = `${dir}-link`;
    await Deno.symlink(dir, link);
    const linked = new TemplateStore({ templatesDir: link });
    assertEquals((await linked.find(KEY))?.id, templateId(KEY));
    for (const mode of [0o770, 0o707]) {
      await Deno.chmod(dir, mode);
      for (const each of [store, linked]) {
        const refused = [() => each.find(KEY), () => each.make(KEY, write("other"))];
        for (const work of refused) {
          assertEquals((await assertRejects(work, SbxError, "not yours alone")).code, "template.folder");
        }
      }
    }
    await Deno.chmod(dir, 0o755);
    assertEquals((await store.find(KEY))?.id, templateId(KEY));
  }));

Deno.test({
  name: "another user's folder is not used",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withStore(async (store, dir) => {
      await store.make(KEY, write("memory"));
      await Deno.chown(dir, 65534, 65534);
      await assertRejects(() => store.find(KEY), SbxError, "not yours alone");
      await assertRejects(() => store.make(KEY, write("other")), SbxError, "not yours alone");
    }),
});

Deno.test("a folder that cannot be made says so", () =>
  withStore(async (_, dir) => {
    await Deno.writeTextFile(dir, "a file");
    const store = new TemplateStore({ templatesDir: join(dir, "templates") });
    assertEquals(await store.find(KEY), undefined);
    const error = await assertRejects(() => store.make(KEY, write("memory")), SbxError, dir);
    assertEquals(error.code, "template.folder");
  }));
