import { openBeneath, readNames } from "../../../ffi/host/files.ts";
import { SbxError } from "../../base/error/mod.ts";
import { Files, plainPath } from "../../base/files/mod.ts";
import { GUEST_WORKSPACE } from "../../event/mod.ts";

/** One VM's workspace. No operation reaches a file outside, whatever the guest does at the same time. */
export class Workspace extends Files {
  constructor(root: string) {
    super(root, { openBeneath, readNames });
  }

  protected override relative(path: string): string {
    return relativePath(path);
  }

  protected override outside(path: string): SbxError {
    return outside(path);
  }

  protected override get place(): string {
    return "the VM's workspace";
  }
}

/**
 * The path below the workspace of `notes/a.txt`, `./notes/a.txt` or `/workspace/notes/a.txt`.
 *
 * @throws {SbxError} `path.outside_workspace`: another absolute path, or a path with `..`;
 * `path.invalid`: a path with NUL
 */
export function relativePath(path: string): string {
  const inside = path === GUEST_WORKSPACE || path.startsWith(`${GUEST_WORKSPACE}/`)
    ? path.slice(GUEST_WORKSPACE.length + 1)
    : path;
  const plain = plainPath(inside);
  if (plain === undefined) throw outside(path);
  return plain;
}

/** Path of the same file in the guest. */
export function guestPath(relative: string): string {
  return relative === "" ? GUEST_WORKSPACE : `${GUEST_WORKSPACE}/${relative}`;
}

export function outside(path: string): SbxError {
  return new SbxError("path.outside_workspace", `"${path}" is outside the VM's workspace`, {
    hint: "name a path below /workspace; links that lead out of it are not followed",
  });
}
