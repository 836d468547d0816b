import { basename } from "node:path";
import { ignore, SbxError } from "../base/error/mod.ts";
import { MANIFEST_BYTES_MAX } from "../release/mod.ts";
import { FILE_MODE, type Workspace } from "./workspace.ts";

/** Largest document that is read into memory, in `bytes`: an SBOM or OBOM of thousands of components. */
const INPUT_MAX = 64 * MANIFEST_BYTES_MAX;

/** Reads a document that a person named. @throws {SbxError} `file.invalid` */
export async function readInput(path: string, max = INPUT_MAX): Promise<Uint8Array> {
  try {
    const { size } = await Deno.stat(path);
    if (size <= max) return await Deno.readFile(path);
  } catch (cause) {
    throw new SbxError("file.invalid", `${path} cannot be read`, {
      cause,
      hint: "check the path and its permissions",
    });
  }
  throw new SbxError("file.invalid", `${path} is over ${max} bytes`, { hint: "check the path" });
}

/**
 * Copies a file into a folder of the workspace.
 *
 * @returns its path below the workspace
 * @throws {SbxError} `file.invalid`
 */
export async function copyInto(
  workspace: Workspace,
  folder: string,
  path: string,
  name = basename(path),
): Promise<string> {
  const target = `${folder}/${name}`;
  const temporary = workspace.path(`${folder}/.${crypto.randomUUID()}.tmp`);
  try {
    await Deno.copyFile(path, temporary);
    await Deno.chmod(temporary, FILE_MODE);
    await Deno.rename(temporary, workspace.path(target));
  } catch (cause) {
    await Deno.remove(temporary).catch(ignore("the failure of the copy is thrown"));
    throw new SbxError("file.invalid", `${path} cannot be copied to ${workspace.path(target)}`, {
      cause,
      hint: "check the path, its permissions and the room on the disk",
    });
  }
  return target;
}
