/** Copies of files that were brought in: exact, only of allowed ones, and never more than their room. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { BroughtFiles } from "../../../lib/service/run/brought.ts";
import { VmFiles } from "../../../lib/service/run/transfer.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import type { FileRequest } from "../../../lib/session/mod.ts";

const ready = () => Promise.resolve();
const bytesOf = (text: string) => new TextEncoder().encode(text);
const namesIn = (dir: string) => Array.from(Deno.readDirSync(dir), ({ name }) => name).sort();

async function withFolder(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a file and a link that came in are kept by their hash, a refused one is not", () =>
  withFolder(async (dir) => {
    const paths = { dir, workspace: join(dir, "workspace"), brought: join(dir, "brought") };
    await Deno.mkdir(paths.workspace);
    const vm = { paths, state: { state: "Stopped" }, record: { name: "demo" } } as unknown as Vm;
    const asked: FileRequest[] = [];
    const decide = (_: Vm, file: FileRequest) => {
      asked.push(file);
      const refusal = file.path.endsWith("refused") ? { refusal: "no" } : {};
      return Promise.resolve({ event_id: "e", ...refusal });
    };
    const files = new VmFiles({ ready, records: { decide } }, vm, { client: "test" });
    const write = (path: string, text: string, mode?: number) =>
      files.write(path, ReadableStream.from([bytesOf(text.slice(0, 2)), bytesOf(text.slice(2))]), mode);
    await write("a.sh", "echo a", 0o755);
    await write("same", "echo a");
    await assertRejects(() => write("refused", "echo b"), SbxError);
    await files.makeFolder("src");
    await files.makeLink("src/a", "../a.sh");
    assertEquals(namesIn(paths.brought), [blake3("echo a"), blake3("../a.sh")].sort());
    assertEquals(await Deno.readTextFile(join(paths.brought, blake3("echo a"))), "echo a");
    assertEquals(asked.map(({ labels: { kind, mode } }) => [kind, mode]), [
      ["file", "755"],
      ["file", "644"],
      ["file", "644"],
      ["folder", undefined],
      ["link", undefined],
    ]);
  }));

Deno.test("copies end at the room of a VM, and one that breaks off leaves nothing", () =>
  withFolder(async (dir) => {
    const brought = new BroughtFiles(join(dir, "brought"), 10);
    const copy = async (text: string, isKept = true) => {
      await using begun = await brought.begin();
      await begun.write(bytesOf(text));
      if (isKept) await begun.keep(blake3(text));
    };
    await copy("12345678");
    await copy("123");
    await copy("ab");
    await copy("x", false);
    assertEquals(namesIn(join(dir, "brought")), [blake3("12345678"), blake3("ab")].sort());
  }));

Deno.test("copies at the same time share the room of their VM", () =>
  withFolder(async (dir) => {
    const brought = join(dir, "brought");
    // Each request has its own object for the folder.
    const begin = () => new BroughtFiles(brought, 10).begin();
    await using one = await begin();
    await using two = await begin();
    for (const [copy, text] of [[one, "1234"], [two, "abcd"], [one, "5678"], [two, "efgh"]] as const) {
      await copy.write(bytesOf(text));
    }
    await one.keep(blake3("12345678"));
    await two.keep(blake3("abcdefgh"));
    const sizes = namesIn(brought).map((name) => Deno.statSync(join(brought, name)).size);
    assertEquals(sizes, [8]);
  }));

Deno.test("a VM has a bounded number of copies, and what a killed service left is removed", () =>
  withFolder(async (dir) => {
    const brought = join(dir, "brought");
    await Deno.mkdir(brought);
    await Deno.writeTextFile(join(brought, ".part-00000000-0000-4000-8000-000000000000"), "left over");
    const files = new BroughtFiles(brought, 10, 2);
    for (const text of ["a", "b", "a", "c"]) {
      await using copy = await files.begin();
      await copy.write(bytesOf(text));
      await copy.keep(blake3(text));
    }
    assertEquals(namesIn(brought), [blake3("a"), blake3("b")].sort());
  }));

Deno.test("a folder that cannot be made keeps no file from the VM", () =>
  withFolder(async (dir) => {
    await Deno.writeTextFile(join(dir, "brought"), "");
    await using copy = await new BroughtFiles(join(dir, "brought")).begin();
    await copy.write(bytesOf("a"));
    await copy.keep(blake3("a"));
    assertEquals(namesIn(dir), ["brought"]);
  }));
