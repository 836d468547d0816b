import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { templateId, type TemplateKey, TemplateStore } from "../../../lib/template/mod.ts";

const HASH = "0".repeat(64);
const KEY: TemplateKey = {
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
    "no file": (dir: string) => Deno.remove(join(dir, "image", "state")),
    "no record": (dir: string) => Deno.remove(join(dir, "template.json")),
    "a record that is cut off": (dir: string) => Deno.truncate(join(dir, "template.json"), 40),
    "a record with another key": async (dir: string) => {
      const path = join(dir, "template.json");
      await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replace('"cpus": 2', '"cpus": 3'));
    },
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

Deno.test("what an earlier run left unfinished is removed, and what is whole is kept", () =>
  withStore(async (store, dir) => {
    const { id } = await store.make(KEY, write("memory"));
    await Deno.mkdir(join(dir, ".making-abc", "image"), { recursive: true });
    await Deno.mkdir(join(dir, ".making-old"));
    await Deno.utime(join(dir, ".making-old"), 0, 0);
    await Deno.mkdir(join(dir, "feedfacefeedface"));
    assertEquals(await store.clean(), 2);
    assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name).sort(), [".making-abc", id]);
  }));
