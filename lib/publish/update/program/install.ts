/**
 * Installs and restores this program, unless its release is revoked; revocations are kept for all users of
 * this machine (docs/design/contracts/10-release.md §10, "Memory").
 */
import { dirname, join } from "node:path";
import { type Arch, currentArch } from "../../../base/arch/mod.ts";
import { asSbxError, SbxError } from "../../../base/error/mod.ts";
import { type Home, lockWithin, removeIfThere, writeAtomic } from "../../../base/home/mod.ts";
import type { ProgressSink } from "../../../base/progress/mod.ts";
import { compareSemVer } from "../../../base/semver/mod.ts";
import { displayUrl, download, requireRoom } from "../../../base/download/mod.ts";
import {
  type BinaryEntry,
  type CheckedChannel,
  digestFile,
  type MemoryFile,
  type PackageEntry,
  provenRevocations,
  type ReleaseKeys,
  ReleaseMemory,
  requireDigests,
  requireNotRevoked,
  resolveReleaseUrl,
  standingOfBinary,
} from "../../../release/mod.ts";
import { recordChange } from "../history.ts";
import { extractProgram } from "./place.ts";
import { outputOf } from "../../../base/spawn/mod.ts";
import { isObject } from "../../../base/object/mod.ts";
import { parseJson } from "../../../base/json/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";
import { log } from "../../../base/log/mod.ts";
import { type LocalUser, localUsers, readAsUser } from "../../../base/user/mod.ts";

/** Places of the revocations that the machine's users share. */
export interface MachinePlaces {
  /** folder of root's proofs, which everybody may read */
  shared: string;
  /** list of users with their homes, as passwd(5) has it */
  users: string;
}

const MACHINE: MachinePlaces = { shared: "/var/lib/sbx/release", users: "/etc/passwd" };

const PROGRAM = "sbx";
const DEBIAN: Record<Arch, string> = { x86_64: "amd64", arm64: "arm64" };

/** A change of the program; `from` is absent where the old one did not run. */
export interface ProgramChange {
  path: string;
  from?: string;
  to: string;
  changed: boolean;
}

export interface ProgramOptions {
  home: Home;
  /** file of the program */
  path: string;
  allowDowngrade?: boolean;
  /**
   * keys that verify revocations known to other users of the machine; absent: only this home's memory counts
   */
  keys?: ReleaseKeys;
  /** places of the shared revocations; default this machine's */
  machine?: MachinePlaces;
  onWait?: () => void;
}

/**
 * Installs the program of a verified release: its package is fetched and verified, the program taken out,
 * verified and started once, and only then put in the place of the old one, which stays as `<path>.previous`.
 *
 * @param index address of the channel's index
 * @throws {SbxError} `update.program.not_found`, `update.program.failed`, `assets.downgrade`,
 * `release.mismatch`, `release.revoked`, `assets.…`
 */
export async function installProgram(
  { manifest }: Pick<CheckedChannel, "manifest">,
  index: URL,
  { progress, ...options }: ProgramOptions & { progress: ProgressSink },
): Promise<ProgramChange> {
  const { home, path, onWait } = options;
  await shareRevocations(home, options.machine);
  const [binary, owner] = findProgram(manifest);
  return await changeProgram(path, async () => {
    const from = await askVersion(path).catch(() => undefined);
    const { blake3 } = await digestFile(path);
    const to = binary.version;
    if (blake3 === binary.blake3) return { path, to, changed: false, ...(from && { from }) };
    const downgrade = from !== undefined && compareSemVer(to, from) < 0;
    if (downgrade && !options.allowDowngrade) {
      throw new SbxError("assets.downgrade", `sbx ${to} of the channel is older than the installed ${from}`, {
        hint: "if you mean it, add --allow-downgrade; sbx update status keeps a record of it",
      });
    }
    await requireGood(to, options);
    const deb = await fetchPackage(home, owner, index, progress);
    const fresh = temporaryBeside(path);
    try {
      requireDigests(
        await extractProgram(deb, binary.path, fresh),
        binary,
        `${binary.path} of ${owner.name}`,
      );
      await requireVersion(fresh, to);
      await record(home, { from, to, source: displayUrl(index), downgrade });
      await replaceProgram(path, fresh);
    } finally {
      removeIfThere(fresh);
    }
    removeIfThere(deb);
    return { path, to, changed: true, ...(from && { from }) };
  }, onWait);
}

/**
 * Puts the previous program back; the one that it replaces becomes the previous one.
 *
 * @throws {SbxError} `update.program.not_found`: no previous program; `release.revoked`;
 * `update.program.failed`
 */
export async function restoreProgram(options: ProgramOptions): Promise<ProgramChange> {
  const { home, path, onWait } = options;
  await shareRevocations(home, options.machine);
  const previous = previousOf(path);
  return await changeProgram(path, async () => {
    if (!await Deno.stat(previous).then(({ isFile }) => isFile, () => false)) {
      throw new SbxError("update.program.not_found", `there is no previous program at ${previous}`, {
        hint: "sbx update program --allow-downgrade installs the channel's version",
      });
    }
    const from = await askVersion(path).catch(() => undefined);
    const to = await askVersion(previous);
    await requireGood(to, options);
    const fresh = temporaryBeside(path);
    try {
      await Deno.link(previous, fresh);
      const downgrade = from !== undefined && compareSemVer(to, from) < 0;
      await record(home, { from, to, source: previous, downgrade });
      await replaceProgram(path, fresh);
    } finally {
      removeIfThere(fresh);
    }
    return { path, to, changed: true, ...(from && { from }) };
  }, onWait);
}

/** @throws {SbxError} `release.revoked`: by this home's memory, root's or, for root, that of any user */
async function requireGood(version: string, { home, keys, machine }: ProgramOptions): Promise<void> {
  const memory = await machineMemory(home, keys, machine);
  requireNotRevoked(standingOfBinary(memory, PROGRAM, version), `sbx ${version}`);
}

/** Largest file of proofs that is read, in `bytes`. */
const FILE_BYTES_MAX = 32 * 1024 * 1024;

/**
 * This home's memory, root's, and for root every user home's proofs. Other users' files only add revocations,
 * and only ones that `keys` verify: no user can keep a program back that its publisher has not revoked.
 */
async function machineMemory(
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
    ...isRoot ? await Promise.all((await localUsers(places.users)).map(readOf)) : [],
  ];
  const proven = await Promise.all(
    texts.filter((text) => text !== "").map((text) => provenRevocations(text, keys)),
  );
  return { ...own, followed: [...own.followed, ...proven.flatMap(({ followed }) => followed)] };
}

/** Copies root's proofs to where every user of the machine can read them. */
async function shareRevocations(home: Home, { shared }: MachinePlaces = MACHINE): Promise<void> {
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

/** Proofs in a user's home; "" without any. */
function readOf(user: LocalUser): Promise<string> {
  return readAsUser(user, fileIn(join(user.home, ".sbx/release")), FILE_BYTES_MAX);
}

function findProgram(
  { version, packages, binaries }: CheckedChannel["manifest"],
): [BinaryEntry, PackageEntry] {
  const ending = `_${DEBIAN[currentArch()]}.deb`;
  for (const owner of packages) {
    if (owner.kind !== "deb" || !owner.name.endsWith(ending)) continue;
    const binary = binaries.find((each) => each.name === PROGRAM && each.package === owner.name);
    if (binary) return [binary, owner];
  }
  throw new SbxError("update.program.not_found", `release ${version} has no sbx for ${currentArch()}`, {
    hint: "sbx update check shows the channel's releases",
  });
}

async function fetchPackage(
  { dir }: Home,
  { name, url, bytes, blake3, sha256 }: PackageEntry,
  index: URL,
  progress: ProgressSink,
): Promise<string> {
  const folder = join(dir, "release");
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await requireRoom(folder, bytes);
  progress.stage("program", bytes);
  const path = join(folder, "program.deb");
  await download({
    what: name,
    sources: [resolveReleaseUrl(index, url)],
    path,
    content: { size: bytes, blake3, sha256 },
    progress,
  });
  return path;
}

async function requireVersion(path: string, version: string): Promise<void> {
  const actual = await askVersion(path);
  if (actual === version) return;
  throw new SbxError("update.program.failed", `the program says that it is sbx ${actual}, not ${version}`, {
    hint: "the installed program is unchanged; report this to its publisher",
  });
}

async function record(
  home: Home,
  { from, to, source, downgrade }: { from?: string; to: string; source: string; downgrade: boolean },
): Promise<void> {
  await recordChange(home, {
    what: "program",
    ...(from && { from }),
    to,
    source,
    ...(downgrade && { downgrade }),
  }).catch((error) => {
    throw asSbxError(error, `recording the update in ${dirname(home.dir)}`);
  });
}

/** Time for a program to print its version, in `ms`: the first start of a new one reads all of it. */
const TRIAL_MS = timeLimit(60_000);

/**
 * Reads a program's version; a program that cannot start here has none.
 *
 * @throws {SbxError} `update.program.failed`
 */
async function askVersion(path: string): Promise<string> {
  const failed = (problem: string, cause?: unknown) =>
    new SbxError("update.program.failed", `${path} does not run on this machine: ${problem}`, {
      cause,
      hint: "the installed program is unchanged; report this to its publisher",
    });
  const command = new Deno.Command(path, {
    args: ["version", "--json"],
    stdin: "null",
    signal: AbortSignal.timeout(TRIAL_MS),
  });
  const { success, code, stdout, stderr } = await outputOf(command).catch((cause) => {
    throw failed((cause as Error).message, cause);
  });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw failed(`it exited with ${code}: ${text(stderr).trim().split("\n")[0]}`);
  try {
    const value = parseJson(text(stdout));
    if (isObject(value) && typeof value.version === "string") return value.version;
  } catch {
    // Said below.
  }
  throw failed("it says no version");
}

/** Time in `ms` after which a person learns the reason for waiting. */
const SILENT_MS = 1000;
const TEMPORARY = /^\.sbx-program-[0-9a-f-]{36}$/;

/** Path of the program that was replaced last. */
function previousOf(path: string): string {
  return `${path}.previous`;
}

/** A path in the program's folder, so that a rename can replace the program. */
function temporaryBeside(path: string): string {
  return join(dirname(path), `.sbx-program-${crypto.randomUUID()}`);
}

/**
 * Changes a program, one change at a time: the folder itself is locked, so that nothing stays behind.
 * Leftovers of a killed earlier change are removed first.
 *
 * @param onWait called when another change takes its time
 * @throws {SbxError} `file.invalid`: the folder is not this user's
 */
async function changeProgram<T>(path: string, work: () => Promise<T>, onWait = () => {}): Promise<T> {
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
 * Replaces a program with `fresh` by a rename: at any moment the path has the old program or the new one,
 * whole. A running process keeps the file that it was started from.
 */
async function replaceProgram(path: string, fresh: string): Promise<void> {
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
