/** Users of this machine, and files of theirs as they may read them themselves. */
import { log } from "../log/mod.ts";
import { timeLimit } from "../time/mod.ts";

/** Longest wait for another user's file, in `ms`: it may be a pipe. */
const READ_MS = timeLimit(2000);
/** Longest wait for a server that has users, in `ms`. */
const FIND_MS = timeLimit(30_000);
/** Users whose homes are searched. */
const USERS_MAX = 256;

/** A user of this machine. */
export interface LocalUser {
  name: string;
  uid: number;
  gid: number;
  home: string;
}

/** Lists users other than root. @param file as passwd(5) has it */
export async function localUsers(file = "/etc/passwd"): Promise<LocalUser[]> {
  const text = await Deno.readTextFile(file).catch(() => "");
  return text.split("\n").flatMap((line): LocalUser[] => {
    const [name, , uid, gid, , home] = line.split(":");
    return home?.startsWith("/") && Number(uid) > 0
      ? [{ name, uid: Number(uid), gid: Number(gid), home }]
      : [];
  }).slice(-USERS_MAX);
}

/**
 * Finds a user by name or uid where this machine has its users from: /etc/passwd, LDAP
 * and others (nsswitch.conf(5)).
 *
 * @returns `undefined` without one, and for a uid that has several, any of these
 */
export async function findUser(key: string | number): Promise<LocalUser | undefined> {
  const { stdout } = await new Deno.Command("getent", {
    args: ["--", "passwd", String(key)],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    signal: AbortSignal.timeout(FIND_MS),
  }).output();
  const line = new TextDecoder().decode(stdout).split("\n")[0];
  const [name, , uid, gid, , home] = line.split(":");
  if (!home?.startsWith("/") || key !== name && key !== Number(uid)) return undefined;
  return { name, uid: Number(uid), gid: Number(gid), home };
}

/**
 * Reads a file with a user's rights: a link leads nowhere that the user may not read.
 *
 * @param max most `bytes` that are read
 * @returns "" for a file that is missing or cannot be read
 */
export async function readAsUser(
  { uid, gid }: Pick<LocalUser, "uid" | "gid">,
  path: string,
  max: number,
): Promise<string> {
  const isThere = await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
  if (!isThere) return "";
  try {
    const child = new Deno.Command("head", {
      args: ["-c", String(max), "--", path],
      uid,
      gid,
      cwd: "/",
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin" },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      signal: AbortSignal.timeout(READ_MS),
    }).spawn();
    return new TextDecoder().decode((await child.output()).stdout);
  } catch (error) {
    log.debug(`${path} is not read: ${error}`);
    return "";
  }
}
