import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { MemoryFile, usedRuns } from "../../../../ffi/libc/memory.ts";

const MIB = 1024 * 1024;
/** Regions of data with holes between them: each is copied by a call of its own. */
const REGIONS = 64;

async function withFile(work: (path: string, dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "ram");
  try {
    using file = await Deno.open(path, { create: true, write: true });
    for (let region = 0; region < REGIONS; region++) {
      await file.seek(2 * region * MIB, Deno.SeekMode.Start);
      await file.write(new Uint8Array(MIB).fill(region + 1));
    }
    await file.truncate(2 * REGIONS * MIB);
    await work(path, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("memory is filled from a file and written to another one, with its holes", () =>
  withFile(async (path, dir) => {
    const memory = new MemoryFile("test", 2 * REGIONS * MIB);
    await memory.read(path);
    const copy = join(dir, "copy");
    await memory.write(copy);
    memory.close();
    assertEquals(await Deno.readFile(copy), await Deno.readFile(path));
    const { blocks, mode } = await Deno.stat(copy);
    assertEquals([blocks! * 512 < 1.5 * REGIONS * MIB, mode! & 0o777], [true, 0o600]);
  }));

Deno.test("pages of zeros become holes of the file that memory is written to, and read the same", async () => {
  const dir = await Deno.makeTempDir();
  try {
    // Longer than the parts that are looked at; zero but for a byte at the begin,
    // around a border, and at the end.
    const bytes = 40 * MIB;
    const memory = new MemoryFile("test", bytes);
    const content = new Uint8Array(bytes);
    for (const at of [0, 32 * MIB - 1, 32 * MIB, 35 * MIB + 4097, bytes - 1]) content[at] = at % 255 + 1;
    await Deno.writeFile(memory.path, content, { create: false });
    assertEquals(await memory.allocated(), bytes);
    const copy = join(dir, "copy");
    await memory.write(copy);
    memory.close();
    assertEquals(await Deno.readFile(copy), content);
    const { blocks } = await Deno.stat(copy);
    // The file system may take some for itself, such as a block for the places of the others.
    assertEquals(blocks! * 512 <= 6 * 64 * 1024, true, `${blocks! * 512} bytes`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("runs of used blocks are joined, and a short last block is one", () => {
  const block = 64 * 1024 / 4;
  const words = new Uint32Array(5 * block + 1);
  assertEquals([...usedRuns(words)], []);
  words[block - 1] =
    words[block] =
    words[3 * block] =
    words[5 * block] =
      1;
  const kib = [...usedRuns(words)].map((run) => run.map((at) => at / 65_536));
  assertEquals(kib, [[0, 2], [3, 4], [5, 5 + 4 / 65_536]]);
});

Deno.test("memory that is closed while it is filled writes nothing into the file that is opened next", () =>
  withFile(async (path, dir) => {
    const memory = new MemoryFile("test", 2 * REGIONS * MIB);
    const filling = memory.read(path);
    memory.close();
    // The kernel gives each of these the lowest number that is free.
    const others = Array.from({ length: 4 }, (_, at) => join(dir, `other${at}`));
    const files = others.map((other) => Deno.openSync(other, { create: true, write: true, read: true }));
    await assertRejects(() => filling, Error, "closed");
    files.forEach((file) => file.close());
    assertEquals(others.map((other) => Deno.statSync(other).size), [0, 0, 0, 0]);
    await assertRejects(() => memory.read(path), Error, "closed");
  }));

Deno.test("a copy has the content of the moment it was taken, holes too, and what was written after its preparation", () =>
  withFile(async (path, dir) => {
    const memory = new MemoryFile("test", 2 * REGIONS * MIB);
    await memory.read(path);
    const copy = await memory.prepareCopy();
    using machine = await Deno.open(memory.path, { read: true, write: true });
    await machine.seek(2 * MIB - 5, Deno.SeekMode.Start);
    await machine.write(new Uint8Array(10).fill(7));
    await copy.take();
    const expected = await Deno.readFile(memory.path);
    await machine.seek(0, Deno.SeekMode.Start);
    await machine.write(new Uint8Array(MIB).fill(9));
    await copy.write(join(dir, "copy"));
    await copy.release();
    memory.close();
    assertEquals(await Deno.readFile(join(dir, "copy")), expected);
    const { blocks } = await Deno.stat(join(dir, "copy"));
    assertEquals(blocks! * 512 < 1.5 * REGIONS * MIB, true);
    await assertRejects(() => memory.prepareCopy(), Error, "closed");
  }));

Deno.test("memory of another size than the file is refused", () =>
  withFile(async (path) => {
    const memory = new MemoryFile("test", 4 * REGIONS * MIB);
    await assertRejects(() => memory.read(path), Error, "bytes instead of");
    memory.close();
  }));

Deno.test({
  name: "memory of a machine cannot be opened by another user",
  ignore: Deno.uid() !== 0,
  async fn() {
    const memory = new MemoryFile("test", MIB);
    const path = `/proc/${Deno.pid}/fd/${memory.descriptor}`;
    const read = (uid: string) =>
      new Deno.Command("setpriv", {
        args: ["--reuid", uid, "--clear-groups", "--", "head", "-c", "1", path],
        stdout: "null",
        stderr: "null",
      }).output();
    assertEquals([(await read("0")).success, (await read("65534")).success], [true, false]);
    memory.close();
  },
});
