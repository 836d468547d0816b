/** Brings a folder into a VM: as a copy, or live. */
import { basename, dirname } from "node:path";
import { ignore, SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import type { ProgressSink } from "../base/progress/mod.ts";
import { writeBundle } from "./git_bundle.ts";
import { AGAIN, CLONE, type Guest, hasGit, LIVE, runScript, UNPACK, unpackPlain } from "./guest.ts";
import { SOURCES_MAX, STEP_SECONDS } from "./limit.ts";
import { nameOf, type RecordedSource, type RepositoryRecord, type Unit } from "./record.ts";
import { requireContent, type Snapshot, takeSnapshot } from "./snapshot.ts";
import { type Source, sourcesOf } from "./source.ts";
import { Room, type Store, storeOf } from "./store.ts";
import { exactText, fromLatin1, splitNul } from "./text.ts";

export interface BringOptions {
  /** folder of the person */
  dir: string;
  /** folder beside the VM's record */
  room: string;
  /** absolute folder in the guest; default {@linkcode defaultPlace} */
  place?: string;
  /** take files along that look like secrets */
  withSecrets?: boolean;
  /** nothing of it comes back; default: as the last time, at first it does */
  isReadOnly?: boolean;
  /** send the files alone to a VM without git */
  allowsPlain?: boolean;
  progress: ProgressSink;
}

/** Units brought in, and files left out. */
export interface BroughtIn {
  /** by which commands know it in this VM */
  name: string;
  dir: string;
  /** folder in the guest, where to work */
  place: string;
  is_repository: boolean;
  /** true: nothing of it comes back */
  is_read_only?: boolean;
  branch?: string;
  head?: string;
  /** uncommitted changes went in too */
  has_changes: boolean;
  /** paths of submodules that went in */
  submodules: string[];
  /** files that look like secrets and stayed on the host */
  secrets_left_out: string[];
  /** such files that a commit has: they are in the VM */
  secrets_committed: string[];
  left_out: string[];
  /** true: the VM has no git, and got the files alone; its work comes back by sbx cp */
  is_plain?: boolean;
}

/** Stages of {@linkcode bringIn} for a progress bar. */
export const BRING_STAGES = [{ name: "reading", weight: 1 }, { name: "sending", weight: 6 }, {
  name: "checking out",
  weight: 3,
}];

/** Text of the attributes of a folder without a repository: its files are bytes. */
const BYTES_ONLY = "* -text -eol -ident -filter -diff -merge -working-tree-encoding";

/** One source on its way. */
export interface Part {
  source: Source;
  store: Store;
  /** its folder in the room */
  storeName: string;
  state: Snapshot;
  before?: Unit;
}

/** Where a source is in the guest, and by which name. */
type Placed = Pick<RecordedSource, "name" | "dir" | "place" | "is_read_only">;

/**
 * Where a folder goes by default: on the disk of the guest, several times faster than its workspace
 * (docs/guides/repositories.md).
 */
export function defaultPlace(dir: string): string {
  return `/root/${nameOf(dir, [])}`;
}

/**
 * Brings a git repository with its submodules, or a plain folder, into a running VM, beside others; again
 * later, if nothing was changed there.
 *
 * @throws {SbxError} `repo.other_folder`, `repo.exists`, `repo.diverged`, `repo.guest_failed`, …
 */
export async function bringIn(guest: Guest, options: BringOptions): Promise<BroughtIn> {
  const { progress, withSecrets = false } = options;
  progress.stage("reading");
  const sources = await sourcesOf(options.dir);
  const [{ dir }] = sources;
  const room = new Room(options.room);
  await Deno.mkdir(options.room, { recursive: true, mode: 0o700 });
  using _lock = await room.lock("bring");
  const record = await room.read();
  const known = record?.sources.find((source) => source.dir === dir);
  const placed = placeOf(options, dir, record, guest);
  const { place } = placed;
  const taken = record?.sources.flatMap(({ units }) => units.map(({ store }) => store)) ?? [];
  const parts: Part[] = [];
  for (const source of sources) {
    const before = known?.units.find(({ path }) => path === source.path);
    const storeName = before?.store ?? await room.newStore(taken);
    taken.push(storeName);
    const store = await storeOf(source, room.store(storeName));
    const state = await takeSnapshot(source, store, withSecrets);
    requireContent(state, source);
    parts.push({ source, store, storeName, state, before });
  }
  progress.stage("sending", await sizeOf(parts));
  if (options.allowsPlain && !await hasGit(guest)) {
    for (const part of parts) await sendPlain(guest, part, placeIn(place, part.source.path), progress);
    return { ...reportOf(sources, placed, parts), is_plain: true };
  }
  for (const part of parts) await send(guest, part, placeIn(place, part.source.path), progress);
  await note(room, placed, parts);
  return reportOf(sources, placed, parts);
}

/** Place of a unit. @param place of its source @param path below that */
export function placeIn(place: string, path: string): string {
  return path === "" ? place : `${place}/${path}`;
}

/** Notes the units beside the VM, with the other sources as they are by now. */
async function note(room: Room, placed: Placed & { is_live?: boolean }, parts: Part[]): Promise<void> {
  using _lock = await room.lock();
  const sources = (await room.read())?.sources ?? [];
  const at = sources.findIndex(({ dir }) => dir === placed.dir);
  const units = parts.map((part) => unitOf(part, sources[at]?.units));
  sources.splice(at < 0 ? sources.length : at, at < 0 ? 0 : 1, { ...placed, units });
  await room.write({ version: 2, sources });
}

/** What went in, for a person. */
function reportOf(sources: Source[], placed: Placed, parts: Part[]): BroughtIn {
  const [{ isRepository }] = sources;
  const states = parts.map(({ state }) => state);
  const [{ head, branch }] = states;
  return {
    ...placed,
    is_repository: isRepository,
    branch,
    head,
    has_changes: states.some((state) => state.work !== state.head),
    submodules: sources.slice(1).map(({ path }) => path),
    secrets_left_out: states.flatMap(({ secrets }) => secrets),
    secrets_committed: states.flatMap(({ committedSecrets }) => committedSecrets),
    left_out: states.flatMap(({ leftOut }) => leftOut),
  };
}

/** @throws {SbxError} `repo.other_folder`, `usage.invalid`, `repo.too_large`: too many */
function placeOf(
  options: BringOptions,
  dir: string,
  record: RepositoryRecord | undefined,
  guest: Guest,
): Placed {
  const sources = record?.sources ?? [];
  const known = sources.find((source) => source.dir === dir);
  if (known?.is_live) {
    throw new SbxError("repo.other_folder", `"${guest.name}" has "${dir}" itself: nothing is sent`, {
      hint: "the VM shares the folder's files; for git in the VM to get new commits, create another VM",
    });
  }
  const wanted = options.place?.replace(/(?<=.)\/+$/, "");
  if (known) return again(options, known, wanted, guest);
  if (sources.length >= SOURCES_MAX) {
    throw new SbxError("repo.too_many", `"${guest.name}" has ${sources.length} repositories and folders`, {
      hint: "create another VM for more",
    });
  }
  const name = nameOf(wanted ?? dir, sources.map(({ name }) => name));
  const place = wanted ?? freePlace(name, sources);
  if (!place.startsWith("/") || place.split("/").includes("..") || /[\0\n]/.test(place)) {
    throw new SbxError("usage.invalid", `"${place}" is not an absolute path in the VM`);
  }
  const other = sources.find((source) => isWithin(place, source.place) || isWithin(source.place, place));
  if (other) {
    throw new SbxError("repo.other_folder", `"${guest.name}" has "${other.dir}" at "${other.place}"`, {
      hint: "give a place that is not within it, and does not contain it: --to PATH",
    });
  }
  return { name, dir, place, ...options.isReadOnly && { is_read_only: true } };
}

/** The place and use of a source that is there already, which stay. */
function again(
  { isReadOnly }: BringOptions,
  { name, dir, place, is_read_only = false }: RecordedSource,
  wanted: string | undefined,
  guest: Guest,
): Placed {
  if (wanted !== undefined && wanted !== place) {
    throw new SbxError("repo.other_folder", `"${dir}" is at "${place}" in "${guest.name}" already`);
  }
  if (isReadOnly && !is_read_only) {
    throw new SbxError(
      "repo.other_folder",
      `"${dir}" is in "${guest.name}" already, and its work comes back`,
      {
        hint: `sbx push DIR ${guest.name}, without --read-only, updates it`,
      },
    );
  }
  return { name, dir, place, ...is_read_only && { is_read_only } };
}

/** The default place of a name, with a number where another source is there. */
function freePlace(name: string, sources: RecordedSource[]): string {
  let place = `/root/${name}`;
  for (let number = 2; sources.some((source) => source.place === place); number++) {
    place = `/root/${name}-${number}`;
  }
  return place;
}

const isWithin = (path: string, folder: string) => path === folder || path.startsWith(`${folder}/`);

/** `bytes` on their way, roughly: a bundle is about as large as the packs it is made of. */
async function sizeOf(parts: Part[]): Promise<number> {
  let size = 0;
  for (const { source, store } of parts) {
    const gits = source.isRepository ? [source.git, store.git] : [store.git];
    for (const git of gits) {
      const fields = await git.text(["count-objects", "-v"]);
      for (const [, kib] of fields.matchAll(/^size(?:-pack)?: (\d+)$/gm)) size += Number(kib) * 1024;
    }
  }
  return size;
}

async function send(guest: Guest, part: Part, place: string, progress: ProgressSink): Promise<void> {
  if (!part.source.isRepository) return await sendFolder(guest, part, place, progress);
  await nameRefs(part);
  const { before, state, store, source } = part;
  const { head = state.work, branch = "", work } = state;
  if (before) {
    const known = [before.work, ...before.head ? [before.head] : []];
    const hasNews = await store.git.text([
      "rev-list",
      "-n",
      "1",
      "--all",
      ...known.map((id) => `^${id}`),
    ]) !== "";
    const file = hasNews ? await carry(guest, writeBundle(store.git, known), progress) : "";
    const tree = await store.git.text(["rev-parse", `${before.work}^{tree}`]);
    progress.stage("checking out");
    await runScript(
      guest,
      AGAIN,
      [place, file, head, branch, work, before.head ?? before.work, tree],
      STEP_SECONDS,
    );
    return;
  }
  const file = await carry(guest, writeBundle(store.git, []), progress);
  progress.stage("checking out");
  const [format, name, email] = await Promise.all([
    store.git.text(["rev-parse", "--show-object-format"]),
    source.git.text(["config", "user.name"]).catch(() => ""),
    source.git.text(["config", "user.email"]).catch(() => ""),
  ]);
  const shallow = await Deno.readTextFile(`${store.dir}/shallow`).catch(() => "");
  await runScript(
    guest,
    CLONE,
    [place, file, head, branch, work, format, shallow.trim(), name, email],
    STEP_SECONDS,
  );
}

/** Sends the files as they are, without history. */
async function sendPlain(guest: Guest, part: Part, place: string, progress: ProgressSink): Promise<void> {
  const { source, state, store } = part;
  const file = await carry(guest, archive(source.dir, await filesOf(part), { format: "gnu" }), progress);
  progress.stage("checking out");
  await unpackPlain(guest, place, file);
  await store.git.run(["update-ref", "refs/sbx/work", state.work]);
}

/** Paths of a source's files, as `latin1`; submodules are sources of their own. */
async function filesOf({ source, state, store }: Part): Promise<string[]> {
  if (!source.isRepository) return state.files;
  const entries = splitNul(await store.git.run(["ls-tree", "-r", "-z", state.work]));
  const paths = entries.filter((entry) => !entry.startsWith("160000 ")).map((entry) =>
    entry.slice(entry.indexOf("\t") + 1)
  );
  const isThere = await Promise.all(
    // A sparse checkout has files in its commit alone.
    paths.map((path) => Deno.lstat(`${source.dir}/${exactText(path) ?? ""}`).then(() => true, () => false)),
  );
  return paths.filter((_, at) => isThere[at]);
}

async function sendFolder(guest: Guest, part: Part, place: string, progress: ProgressSink): Promise<void> {
  const { source, state, store, before } = part;
  const file = await carry(guest, archive(source.dir, state.files), progress);
  progress.stage("checking out");
  const tree = (commit: string) => store.git.text(["rev-parse", `${commit}^{tree}`]);
  const old = before ? await tree(before.work) : "";
  const args = [place, file, folderStore(place), BYTES_ONLY, old, await tree(state.work)];
  await runScript(guest, UNPACK, args, STEP_SECONDS);
  await store.git.run(["update-ref", "refs/sbx/work", state.work]);
}

/** git's own files for a folder without a repository, beside it. */
export function folderStore(place: string): string {
  return `${dirname(place)}/.${basename(place)}.sbx-git`;
}

/** Gives the store the branches and tags of the person, and names the state of the files. */
async function nameRefs({ source, store, state }: Part): Promise<void> {
  const format = "--format=%(objectname) %(refname)";
  const refs = await source.git.run(["for-each-ref", format, "refs/heads", "refs/tags"]);
  const old = await store.git.text(["for-each-ref", "--format=delete %(refname)"]);
  if (old !== "") {
    await store.git.run(["update-ref", "--stdin"], { input: new TextEncoder().encode(`${old}\n`) });
  }
  const lines = new TextDecoder().decode(refs).split("\n").filter((line) => line !== "").map((line) => {
    const [id, name] = line.split(" ");
    return `create ${name} ${id}`;
  });
  lines.push(`create refs/sbx/head ${state.head ?? state.work}`, `create refs/sbx/work ${state.work}`);
  await store.git.run(["update-ref", "--stdin"], {
    input: new TextEncoder().encode(lines.map((line) => `${line}\n`).join("")),
  });
}

/** Sends a stream into the workspace. @returns its path in the guest */
async function carry(
  guest: Guest,
  bytes: AsyncIterable<Uint8Array>,
  progress: ProgressSink,
): Promise<string> {
  const name = `.sbx-in-${crypto.randomUUID()}`;
  await guest.upload(name, counted(bytes, progress));
  return `${guest.workspace}/${name}`;
}

async function* counted(
  bytes: AsyncIterable<Uint8Array>,
  progress: ProgressSink,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    progress.advance(chunk.length);
    yield chunk;
  }
}

/** @param now units of the source by now: a pull may have taken work meanwhile */
function unitOf({ source, state, storeName }: Part, now: Unit[] = []): Unit {
  const { path, isRepository } = source;
  const { head, branch, work } = state;
  const old = now.find((unit) => unit.path === path);
  return {
    path,
    is_repository: isRepository,
    head: isRepository ? head : work,
    branch,
    work,
    pulled: old?.pulled ?? {},
    ...old?.squashed && { squashed: old.squashed },
    store: storeName,
  };
}

// A live repository: the guest shares the host's files, with a separate repository for them.

/** Stages of {@linkcode bringLive} for a progress bar. */
export const LIVE_STAGES = [{ name: "reading", weight: 1 }, { name: "sending", weight: 3 }, {
  name: "comparing",
  weight: 6,
}];

interface LiveOptions {
  /** folder of the person, which the guest has */
  dir: string;
  /** folder beside the VM's record */
  room: string;
  /** the folder in the guest */
  place: string;
  /** folder of the guest's repository, on its own disk */
  gitDir: string;
  progress: ProgressSink;
}

/**
 * Gives a guest that has a person's folder a repository with the history of that
 * folder's. Submodules stay files.
 *
 * @throws {SbxError} `repo.empty`, `repo.exists`, `repo.guest_failed`, …
 */
export async function bringLive(guest: Guest, options: LiveOptions): Promise<BroughtIn> {
  const { place, gitDir, progress } = options;
  progress.stage("reading");
  const [source] = await sourcesOf(options.dir);
  const room = new Room(options.room);
  await Deno.mkdir(options.room, { recursive: true, mode: 0o700 });
  using _lock = await room.lock("bring");
  const storeName = await room.newStore([]);
  const store = await storeOf(source, room.store(storeName));
  // Without the secrets: their files are masked, and no commit of the guest has them.
  const state = await takeSnapshot(source, store, false);
  requireContent(state, source);
  const part = { source, store, storeName, state };
  progress.stage("sending", await sizeOf([part]));
  await nameRefs(part);
  const file = await carry(guest, writeBundle(store.git, []), progress);
  progress.stage("comparing");
  const [format, name, email] = await Promise.all([
    store.git.text(["rev-parse", "--show-object-format"]),
    source.git.text(["config", "user.name"]).catch(() => ""),
    source.git.text(["config", "user.email"]).catch(() => ""),
  ]);
  const shallow = await Deno.readTextFile(`${store.dir}/shallow`).catch(() => "");
  const { head = state.work, branch = "", work } = state;
  const args = [place, file, head, branch, work, format, shallow.trim(), name, email, gitDir];
  await runScript(guest, LIVE, args, STEP_SECONDS);
  const placed = { name: nameOf(place, []), dir: source.dir, place };
  await note(room, { ...placed, is_live: true }, [part]);
  return reportOf([source], placed, [part]);
}

// Files of a folder as one stream, by the host's tar, which keeps links, modes and times.

/**
 * The named files and the folders above them.
 *
 * @param files as `latin1`
 * @param options.os system of the tar: macOS's has fewer options, and would add Finder's metadata
 * @param options.format `gnu` for busybox, which knows no records of pax
 * @throws {SbxError} `repo.unreadable`: tar cannot read one
 */
export async function* archive(
  dir: string,
  files: string[],
  { os = Deno.build.os, format = "posix" }: { os?: string; format?: "posix" | "gnu" } = {},
): AsyncGenerator<Uint8Array> {
  const folders = new Set(files.flatMap((path) => {
    const parts = path.split("/").slice(0, -1);
    return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
  }));
  const child = new Deno.Command("tar", {
    args: [
      "--create",
      "--directory",
      dir,
      `--format=${format === "gnu" && os === "darwin" ? "gnutar" : format}`,
      "--no-recursion",
      "--null",
      ...os === "darwin" ? [] : ["--verbatim-files-from", "--sort=none"],
      ...["--files-from=-", "--file=-"],
    ],
    env: { PATH: Deno.env.get("PATH") ?? "/usr/bin:/bin", LC_ALL: "C", COPYFILE_DISABLE: "1" },
    clearEnv: true,
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const list = fromLatin1([...folders, ...files].map((path) => `./${path}\0`).join(""));
  const writer = child.stdin.getWriter();
  const written = writer.write(list as Uint8Array<ArrayBuffer>).then(() => writer.close()).catch(
    ignore("tar says why it ended early"),
  );
  const words = new Response(child.stderr).text();
  yield* child.stdout;
  await written;
  const { success } = await child.status;
  if (success) return;
  throw new SbxError(
    "repo.unreadable",
    `"${dir}" cannot be read: ${plain((await words).trim()).slice(0, 400)}`,
    {
      hint: "a file that changes meanwhile cannot be sent; try again",
    },
  );
}
