/**
 * Revocations that any user of this machine has learned of (docs/design/contracts/10-release.md §10,
 * "Memory").
 */
import { join } from "node:path";
import { log } from "../../../base/log/mod.ts";
import { type Home, writeAtomic } from "../../../base/home/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";
import { type MemoryFile, provenRevocations, type ReleaseKeys, ReleaseMemory } from "../../../release/mod.ts";

/** Places of the revocations that the machine's users share. */
export interface MachinePlaces {
  /** folder of root's proofs, which everybody may read */
  shared: string;
  /** list of users with their homes, as passwd(5) has it */
  users: string;
}

const MACHINE: MachinePlaces = { shared: "/var/lib/sbx/release", users: "/etc/passwd" };
/** Largest file of proofs that is read, in `bytes`. */
const FILE_BYTES_MAX = 32 * 1024 * 1024;
/** Longest wait for another user's file, in `ms`: it may be a pipe. */
const READ_MS = timeLimit(2000);
/** Users whose homes are searched. */
const USERS_MAX = 256;

interface User {
  uid: number;
  gid: number;
  home: string;
}

/**
 * This home's memory, root's, and for root every user home's proofs. Other users' files only add revocations,
 * and only ones that `keys` verify: no user can keep a program back that its publisher has not revoked.
 */
export async function machineMemory(
  home: Home,
  keys: ReleaseKeys | undefined,
  places: MachinePlaces = MACHINE,
): Promise<MemoryFile> {
  const memory = new ReleaseMemory(home);
  const own = await memory.read();
  if (keys === undefined) return own;
  const isRoot = Deno.uid() === 0;
  const texts = [
    await Deno.readTextFile(memory.proofPath).catch(() => ""),
    await Deno.readTextFile(fileIn(places.shared)).catch(() => ""),
    ...isRoot ? await Promise.all((await usersOf(places.users)).map(readOf)) : [],
  ];
  const proven = await Promise.all(
    texts.filter((text) => text !== "").map((text) => provenRevocations(text, keys)),
  );
  return { ...own, followed: [...own.followed, ...proven.flatMap(({ followed }) => followed)] };
}

/** Gives every user of the machine root's proofs. */
export async function shareRevocations(home: Home, { shared }: MachinePlaces = MACHINE): Promise<void> {
  if (Deno.uid() !== 0) return;
  const text = await Deno.readTextFile(new ReleaseMemory(home).proofPath).catch(() => undefined);
  if (text === undefined) return;
  try {
    await Deno.mkdir(shared, { recursive: true, mode: 0o755 });
    await writeAtomic(fileIn(shared), text, 0o644);
    // Also where root's umask is stricter.
    await Deno.chmod(shared, 0o755);
    await Deno.chmod(fileIn(shared), 0o644);
  } catch (error) {
    log.debug(`revocations are not shared: ${error}`);
  }
}

function fileIn(folder: string): string {
  return join(folder, "revocations.json");
}

async function usersOf(file: string): Promise<User[]> {
  const text = await Deno.readTextFile(file).catch(() => "");
  return text.split("\n").flatMap((line): User[] => {
    const [, , uid, gid, , home] = line.split(":");
    return home?.startsWith("/") && Number(uid) > 0 ? [{ uid: Number(uid), gid: Number(gid), home }] : [];
  }).slice(-USERS_MAX);
}

/** Reads a user's proofs with that user's rights: a link leads nowhere that the user may not read. */
async function readOf({ uid, gid, home }: User): Promise<string> {
  const path = fileIn(join(home, ".sbx/release"));
  const isThere = await Deno.lstat(path).then(
    () => true,
    (error) => !(error instanceof Deno.errors.NotFound),
  );
  if (!isThere) return "";
  try {
    const child = new Deno.Command("head", {
      args: ["-c", String(FILE_BYTES_MAX), "--", path],
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
