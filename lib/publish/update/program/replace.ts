import { dirname, join } from "node:path";
import { asSbxError, SbxError } from "../../../base/error/mod.ts";
import { lockWithin, removeIfThere } from "../../../base/home/mod.ts";

/** Time in `ms` after which a person is told what is waited for. */
const SILENT_MS = 1000;
const TEMPORARY = /^\.sbx-program-[0-9a-f-]{36}$/;

/** Path of the program that was replaced last. */
export function previousOf(path: string): string {
  return `${path}.previous`;
}

/** A path in the program's folder, so that a rename can put it in the program's place. */
export function temporaryBeside(path: string): string {
  return join(dirname(path), `.sbx-program-${crypto.randomUUID()}`);
}

/**
 * Changes a program, one change at a time: the folder itself is locked, so that nothing stays behind. What an earlier
 * change left when it was killed is removed first.
 *
 * @param onWait called when another change takes its time
 * @throws {SbxError} `file.invalid`: the folder is not this user's
 */
export async function changeProgram<T>(path: string, work: () => Promise<T>, onWait = () => {}): Promise<T> {
  const dir = dirname(path);
  try {
    using _lock = await lock(dir, onWait);
    for await (const { name } of Deno.readDir(dir)) {
      if (TEMPORARY.test(name)) removeIfThere(join(dir, name));
    }
    return await work();
  } catch (error) {
    if (!(error instanceof Deno.errors.PermissionDenied)) throw asSbxError(error, `updating ${path}`);
    throw new SbxError("file.invalid", `${path} cannot be replaced: permission denied`, {
      cause: error,
      hint: "run it as the owner of the folder, for instance with sudo",
    });
  }
}

/**
 * Puts `fresh` in the place of a program by a rename: at any moment the path has the old program or the new one, whole.
 * What runs keeps the file that it was started from.
 */
export async function replaceProgram(path: string, fresh: string): Promise<void> {
  const old = temporaryBeside(path);
  await Deno.link(path, old);
  try {
    // First: a restore must link the previous program before this takes its name.
    await Deno.rename(old, previousOf(path));
  } finally {
    removeIfThere(old);
  }
  await Deno.rename(fresh, path);
  using folder = await Deno.open(dirname(path));
  await folder.sync();
}

async function lock(dir: string, onWait: () => void): Promise<Deno.FsFile> {
  const file = await Deno.open(dir);
  if (await lockWithin(file, SILENT_MS)) return file;
  file.close();
  onWait();
  const waiting = await Deno.open(dir);
  await waiting.lock(true);
  return waiting;
}
