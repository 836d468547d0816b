import { SbxError } from "../error/mod.ts";

/** Where the guest sees the workspace. */
const GUEST_ROOT = "/workspace";

/**
 * The path below the workspace that a user means by `notes/a.txt`, `./notes/a.txt` or `/workspace/notes/a.txt`.
 *
 * @throws {SbxError} `path.outside_workspace` for another absolute path or one with `..`, `path.invalid` for one with NUL
 */
export function relativePath(path: string): string {
  if (path.includes("\0")) throw new SbxError("path.invalid", "a path may not contain NUL");
  const inside = path === GUEST_ROOT || path.startsWith(`${GUEST_ROOT}/`)
    ? path.slice(GUEST_ROOT.length + 1)
    : path;
  const parts = inside.split("/");
  if (inside.startsWith("/") || parts.includes("..")) throw outside(path);
  return parts.filter((part) => part !== "" && part !== ".").join("/");
}

/** The same file as the guest names it. */
export function guestPath(relative: string): string {
  return relative === "" ? GUEST_ROOT : `${GUEST_ROOT}/${relative}`;
}

export function outside(path: string): SbxError {
  return new SbxError("path.outside_workspace", `"${path}" is outside the VM's workspace`, {
    hint: "name a path below /workspace; links that lead out of it are not followed",
  });
}
