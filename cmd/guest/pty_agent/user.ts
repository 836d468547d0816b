/** Users of the guest, as its own files name them. */
import type { UserIds } from "../../../ffi/libc/spawn.ts";

/** A user to run programs as. */
export interface User extends UserIds {
  home: string;
}

/** Most `bytes` of a file of users: an image may have a pipe in its place, or a file larger than memory. */
const FILE_MAX = 1024 ** 2;
/** Largest number of a user or group. */
const ID_MAX = 2 ** 32 - 2;

/**
 * Finds a user by `NAME`, `NUMBER`, and a group after a colon, as Docker does: numbers need
 * no entry in the guest's files.
 *
 * @throws {Error} the guest has no such user or group
 */
export function findUser(text: string): User {
  const at = text.indexOf(":");
  const [name, group] = at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
  const entry = linesOf("/etc/passwd").find(([user, , uid]) => user === name || uid === name);
  const uid = idOf(entry?.[2] ?? name);
  if (uid === undefined) throw new Error(`the guest has no user "${name}"`);
  const groups = linesOf("/etc/group");
  const gid = group === ""
    ? idOf(entry?.[3] ?? "0")
    : idOf(groups.find(([each, , id]) => each === group || id === group)?.[2] ?? group);
  if (gid === undefined) throw new Error(`the guest has no group ${group ? `"${group}"` : `of "${name}"`}`);
  const others = entry && group === ""
    ? groups.filter(([, , , members = ""]) => members.split(",").includes(entry[0])).flatMap(([, , id]) =>
      idOf(id) ?? []
    )
    : [];
  return { uid, gid, groups: others.filter((id) => id !== gid), home: entry?.[5] || "/" };
}

function idOf(text: string): number | undefined {
  return /^\d{1,10}$/.test(text) && Number(text) <= ID_MAX ? Number(text) : undefined;
}

/** The fields of a file's lines. */
export function linesOf(path: string): string[][] {
  let text = "";
  try {
    const { isFile, size } = Deno.statSync(path);
    if (isFile && size <= FILE_MAX) text = Deno.readTextFileSync(path);
  } catch {
    // An image without users.
  }
  return text.split("\n").map((line) => line.split(":")).filter((fields) => fields.length >= 4);
}

/** The user of a program and its variables; without a user the program runs as root. */
export function asUser(
  user: string | undefined,
  env: Record<string, string>,
): { user?: UserIds; env: Record<string, string> } {
  if (user === undefined) return { env };
  const { home, ...ids } = findUser(user);
  if (ids.uid === 0 && ids.gid === 0) return { env };
  const { USER: _, ...rest } = env;
  return { user: ids, env: { ...rest, HOME: home } };
}
