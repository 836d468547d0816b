import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { readToml, TOML_FILE_LIMIT } from "../../../../lib/base/toml/mod.ts";
import { runChild } from "../../../helper/child.ts";

async function inFolder(run: (dir: string) => Promise<void>) {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function readError(path: string, limit?: number): Promise<[string, string]> {
  const { code, message } = await assertRejects(() => readToml(path, limit), SbxError);
  return [code, message.replace(path, "f")];
}

Deno.test("a file is read through a symbolic link", () =>
  inFolder(async (dir) => {
    await Deno.writeTextFile(join(dir, "real.toml"), "a = 1\n");
    await Deno.symlink("real.toml", join(dir, "link.toml"));
    assertEquals((await readToml(join(dir, "link.toml"))).value, { a: 1 });
  }));

Deno.test("an unreadable file has a code and a reason", () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    assertEquals(await readError(path), ["toml.not_found", "f: no such file"]);

    await Deno.symlink("nowhere", path);
    assertEquals(await readError(path), [
      "toml.unreadable",
      "f: broken symbolic link",
    ]);
    await Deno.remove(path);

    await Deno.symlink("f.toml", path);
    assertEquals(await readError(path), ["toml.unreadable", "f: loop of symbolic links"]);
    await Deno.remove(path);

    await Deno.mkdir(path);
    assertEquals(await readError(path), ["toml.not_a_file", "f: is a folder"]);
    assertEquals(
      await readError("/dev/null").then(([code]) => code),
      "toml.not_a_file",
    );
    await Deno.remove(path);

    await Deno.writeFile(path, new Uint8Array([0x61, 0x20, 0x3d, 0x20, 0x31, 0x0a, 0x23, 0xff]));
    assertEquals(await readError(path), ["toml.invalid", "f:2:1: invalid UTF-8"]);
    assertEquals(await readError(join(path, "g")), [
      "toml.unreadable",
      `f: a parent of the path is a file, not a folder`,
    ]);

    await Deno.writeTextFile(path, "a = 1\n");
    assertEquals(await readError(path, 5), ["toml.too_large", "f: the file has 6 bytes, the limit is 5"]);
  }));

Deno.test("a file of 100 MB is rejected by its size alone", () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    await Deno.writeTextFile(path, "");
    await Deno.truncate(path, 100 * 1024 * 1024);
    assertEquals(await readError(path), [
      "toml.too_large",
      `f: the file has 104857600 bytes, the limit is ${TOML_FILE_LIMIT}`,
    ]);
  }));

Deno.test(
  "a named pipe is rejected without waiting for a writer",
  { ignore: Deno.build.os === "windows" },
  () =>
    inFolder(async (dir) => {
      const path = join(dir, "f.toml");
      await runChild("mkfifo", { args: [path] });
      assertEquals(await readError(path), ["toml.not_a_file", "f: is not a regular file"]);
    }),
);

Deno.test("a file without read permission", { ignore: Deno.uid() === 0 }, () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    await Deno.writeTextFile(path, "a = 1\n", { mode: 0o200 });
    assertEquals(await readError(path), ["toml.unreadable", "f: permission denied"]);
  }));
