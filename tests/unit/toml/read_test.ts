import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { readToml, TOML_FILE_LIMIT } from "../../../lib/toml/mod.ts";

async function inFolder(run: (dir: string) => Promise<void>) {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function refused(path: string, limit?: number): Promise<[string, string]> {
  const { code, message } = await assertRejects(() => readToml(path, limit), SbxError);
  return [code, message.replace(path, "f")];
}

Deno.test("a file is read through a symbolic link", () =>
  inFolder(async (dir) => {
    await Deno.writeTextFile(join(dir, "real.toml"), "a = 1\n");
    await Deno.symlink("real.toml", join(dir, "link.toml"));
    assertEquals((await readToml(join(dir, "link.toml"))).value, { a: 1 });
  }));

Deno.test("what is not a readable TOML file has a code and says why", () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    assertEquals(await refused(path), ["toml.not_found", "f: no such file"]);

    await Deno.symlink("nowhere", path);
    assertEquals(await refused(path), [
      "toml.unreadable",
      "f: a symbolic link to a file that does not exist",
    ]);
    await Deno.remove(path);

    await Deno.symlink("f.toml", path);
    assertEquals(await refused(path), ["toml.unreadable", "f: symbolic links that lead in a circle"]);
    await Deno.remove(path);

    await Deno.mkdir(path);
    assertEquals(await refused(path), ["toml.not_a_file", "f: a folder"]);
    assertEquals(
      await refused(join(path, "..", "..", "..", "dev", "null")).then(([code]) => code),
      "toml.not_a_file",
    );
    await Deno.remove(path);

    await Deno.writeFile(path, new Uint8Array([0x61, 0x20, 0x3d, 0x20, 0x31, 0x0a, 0x23, 0xff]));
    assertEquals(await refused(path), ["toml.invalid", "f:2:1: bytes that are not UTF-8"]);
    assertEquals(await refused(join(path, "g")), [
      "toml.unreadable",
      `f: a part of the path is a file, not a folder`,
    ]);

    await Deno.writeTextFile(path, "a = 1\n");
    assertEquals(await refused(path, 5), ["toml.too_large", "f: 6 bytes, and 5 is the most that sbx reads"]);
  }));

Deno.test("a file of 100 MB is refused by its size alone", () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    await Deno.writeTextFile(path, "");
    await Deno.truncate(path, 100 * 1024 * 1024);
    assertEquals(await refused(path), [
      "toml.too_large",
      `f: 104857600 bytes, and ${TOML_FILE_LIMIT} is the most that sbx reads`,
    ]);
  }));

Deno.test(
  "a named pipe is refused, not waited for",
  { ignore: Deno.build.os === "windows" },
  () =>
    inFolder(async (dir) => {
      const path = join(dir, "f.toml");
      await new Deno.Command("mkfifo", { args: [path] }).output();
      assertEquals(await refused(path), ["toml.not_a_file", "f: not a regular file"]);
    }),
);

Deno.test("a file without read permission", { ignore: Deno.uid() === 0 }, () =>
  inFolder(async (dir) => {
    const path = join(dir, "f.toml");
    await Deno.writeTextFile(path, "a = 1\n", { mode: 0o200 });
    assertEquals(await refused(path), ["toml.unreadable", "f: no permission to read it"]);
  }));
