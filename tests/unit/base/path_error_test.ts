import { assert, assertEquals, assertInstanceOf, assertStrictEquals } from "@std/assert";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathError } from "../../../lib/base/args/path_error.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";

/** Rejection of an operation on a file. */
async function failure(operation: Promise<unknown>): Promise<unknown> {
  return await operation.then(() => assert(false, "it succeeded"), (error) => error);
}

Deno.test("a path of the call that a command cannot use is named, with its problem", async () => {
  const dir = await Deno.makeTempDir();
  const missing = join(dir, "missing"), file = join(dir, "file");
  await Deno.writeTextFile(file, "");
  const cases: [operation: () => Promise<unknown>, argv: string[], message: string][] = [
    [() => Deno.readTextFile(missing), ["verb", missing], `there is no file or folder ${missing}`],
    [() => Deno.open(missing), [`--corp=${missing}`], `there is no file or folder ${missing}`],
    [() => readFile(missing), ["--corp", missing], `there is no file or folder ${missing}`],
    [() => Deno.readTextFile(join(dir, "a/b")), [dir], `there is no file or folder ${join(dir, "a/b")}`],
    [() => Deno.rename(missing, file), [file, missing], `there is no file or folder ${missing}`],
    [() => Deno.readTextFile(dir), [dir], `${dir} is a folder, not a file`],
    [
      () => Deno.readTextFile(join(file, "x")),
      [file],
      `a part of ${join(file, "x")} is a file, not a folder`,
    ],
    [() => Deno.mkdir(file), [file], `${file} exists already`],
    [
      () => writeAtomic(join(missing, "out"), ""),
      ["--out", join(missing, "out")],
      `there is no file or folder ${missing}`,
    ],
    [
      () => writeAtomic(join(file, "out"), ""),
      [`--out=${join(file, "out")}`],
      `a part of ${file} is a file, not a folder`,
    ],
  ];
  for (const [operation, argv, message] of cases) {
    const error = pathError(await failure(operation()), argv) as SbxError;
    assertInstanceOf(error, SbxError);
    assertEquals([error.code, error.message, error.hint], ["file.invalid_path", message, "check the path"]);
  }
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a file that the call did not name stays an error of sbx", async () => {
  const dir = await Deno.makeTempDir();
  const error = await failure(Deno.readTextFile(join(dir, "own")));
  assertStrictEquals(pathError(error, ["verb", join(dir, "other"), "own", "--help"]), error);
  await Deno.remove(dir);
  const ours = new SbxError("vm.not_found", "no VM is called '/x'");
  assertStrictEquals(pathError(ours, ["/x"]), ours);
  assertStrictEquals(pathError("text", ["text"]), "text");
});
