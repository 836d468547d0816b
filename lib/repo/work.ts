/** Takes a guest's work onto the host, into stores without other readers. */
import { join } from "node:path";
import { ignore, SbxError } from "../base/error/mod.ts";
import { folderStore, placeIn } from "./bring.ts";
import { Git } from "./git.ts";
import { readBundle } from "./git_bundle.ts";
import { carriedName, collectIn, type Guest, removeCarried } from "./guest.ts";
import { BUNDLE_MAX, COMMITS_MAX, INFLATED_MAX, STEP_SECONDS } from "./limit.ts";
import { ObjectReader } from "./object.ts";
import { indexPack, newObjects, requireConnected } from "./pack.ts";
import { type RecordedSource, type RepositoryRecord, returning, type Unit } from "./record.ts";
import { refused, tooLarge } from "./refusal.ts";
import { sourcesOf } from "./source.ts";
import { makeBeside, Room, type Store, storeOf, type Untaken } from "./store.ts";
import { splitNul } from "./text.ts";
import { checkModules, linksOf, TreeCheck } from "./tree_check.ts";

/** Subject of the commit that holds the guest's uncommitted changes. */
export const UNCOMMITTED = "Uncommitted work";

/** Checked work on one repository or folder. */
export interface UnitWork {
  source: RecordedSource;
  unit: Unit;
  /**
   * for people, above its paths: of several sources its name, then the path of a
   * submodule; "" for the only one
   */
  label: string;
  /** folder of the person */
  dir: string;
  person: Git;
  /** store with the brought-in state */
  base: Store;
  /** store with that and with the work */
  store: Store;
  /** commit of the guest's files as they are */
  tip: string;
  /** new commits, newest first, without one of {@linkcode UNCOMMITTED} */
  commits: string[];
  /** the tip is a commit of changes that the guest did not commit */
  hasUncommitted: boolean;
  /** the guest changed nothing */
  isUnchanged: boolean;
}

/** A VM's work on its brought-in sources. Disposal removes it from the host. */
export class Work implements AsyncDisposable {
  private constructor(
    readonly vm: string,
    readonly room: Room,
    public record: RepositoryRecord,
    readonly units: UnitWork[],
    readonly temporary: string[],
    readonly lock: Disposable,
  ) {}

  /**
   * Collects the work of a running VM, of all sources whose work comes back.
   *
   * @param room folder beside the VM's record
   * @param paths of {@linkcode choose}: only the sources that these name
   * @throws {SbxError} `repo.none`: nothing was brought in, or nothing to come back; `repo.refused`,
   * `repo.too_large`, `repo.guest_failed`, `repo.no_change`
   */
  static async collect(guest: Guest, room: string, paths: string[] = []): Promise<Work> {
    const place = new Room(room);
    const record = await place.read();
    if (!record || returning(record).length === 0) {
      throw new SbxError(
        "repo.none",
        record
          ? `all that was brought into "${guest.name}" is read-only, and nothing of it comes back`
          : `nothing was brought into "${guest.name}"`,
        { hint: `sbx push DIR ${guest.name} brings a folder in; sbx cp SRC DST copies files` },
      );
    }
    const work = new Work(guest.name, place, record, [], [], await place.collecting());
    try {
      for (const { source } of choose(record, paths)) {
        for (const unit of source.units) work.units.push(await work.#collect(guest, source, unit));
      }
      for (const unit of work.units) await requireOwn(unit, record, place);
    } catch (error) {
      await work[Symbol.asyncDispose]();
      throw error;
    }
    return work;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const dir of this.temporary) {
      await Deno.remove(dir, { recursive: true }).catch(ignore("the next who takes work removes it"));
    }
    this.lock[Symbol.dispose]();
  }

  async #collect(guest: Guest, source: RecordedSource, unit: Unit): Promise<UnitWork> {
    const dir = placeIn(source.dir, unit.path);
    const person = await personOf(dir, unit);
    const base = await storeOf(
      { git: person, isRepository: unit.is_repository },
      this.room.store(unit.store),
    );
    const place = placeIn(source.place, unit.path);
    const label = returning(this.record).length === 1
      ? unit.path
      : [source.name, unit.path].filter((part) => part !== "").join("/");
    const about = { source, unit, label, dir, person, base };
    const known = [unit.work, ...unit.head ? [unit.head] : []];
    const name = carriedName();
    const file = `${guest.workspace}/${name}`;
    try {
      const args = [place, file, unit.is_repository ? "" : folderStore(place), ...known];
      const words = await collectIn(guest, this.room, args, STEP_SECONDS);
      const { tip: claimed, isEmpty } = readAnswer(words);
      if (isEmpty) {
        return await describe({ ...about, store: base, tip: await brought(base, claimed, known) });
      }
      const { body } = await guest.download(name);
      const store = this.room.temporary();
      this.temporary.push(store);
      const incoming = await receive(body, base, store, known);
      return await describe({ ...about, ...incoming });
    } finally {
      await removeCarried(guest, name, STEP_SECONDS);
    }
  }
}

/** A source with the paths of it that a person chose; none: all of it. */
export interface Chosen {
  source: RecordedSource;
  paths: string[];
}

/**
 * The sources that some paths are in. Where several come back, a path begins with the name of
 * one; the name alone is all of it.
 *
 * @param paths none: every source
 * @throws {SbxError} `repo.no_change`: no such source
 */
export function choose(record: RepositoryRecord, paths: string[]): Chosen[] {
  const sources = returning(record);
  if (paths.length === 0) return sources.map((source) => ({ source, paths: [] }));
  if (sources.length === 1) return [{ source: sources[0], paths }];
  const chosen = new Map<RecordedSource, string[]>();
  const whole = new Set<RecordedSource>();
  for (const path of paths) {
    const [name, ...parts] = path.split("/");
    const source = sources.find((each) => each.name === name);
    if (!source) {
      throw new SbxError("repo.no_change", `"${path}" begins with no name of a repository of the VM`, {
        hint: `one of: ${sources.map(({ name }) => name).join(", ")}; with /PATH for a part of it`,
      });
    }
    const rest = parts.join("/");
    if (rest === "") whole.add(source);
    chosen.set(source, [...chosen.get(source) ?? [], rest]);
  }
  return Array.from(chosen, ([source, paths]) => ({ source, paths: whole.has(source) ? [] : paths }));
}

/**
 * Refuses the history of another source of the VM in the place of this one: its branch would bring the files
 * of one repository into another, where other people read them.
 */
async function requireOwn({ unit, store, tip, dir }: UnitWork, record: RepositoryRecord, room: Room) {
  if (!unit.is_repository || await store.git.succeeds(["merge-base", tip, unit.head ?? unit.work])) return;
  const rootsOf = async (git: Git, commit: string) =>
    (await git.text(["rev-list", "--max-parents=0", commit])).split("\n");
  const roots = new Set(await rootsOf(store.git, tip));
  for (const { dir: outer, units } of record.sources) {
    for (const other of units.filter(({ store, is_repository }) => is_repository && store !== unit.store)) {
      const theirs = await rootsOf(Git.ofStore(room.store(other.store)), other.head ?? other.work);
      if (!theirs.some((id) => roots.has(id))) continue;
      throw refused(`the VM has the history of "${placeIn(outer, other.path)}" in the place of "${dir}"`);
    }
  }
}

/** Commits that the guest claims to have; checked against the received objects. */
function readAnswer(words: string): { tip: string; isEmpty: boolean } {
  const [, tip, none] = /^[0-9a-f]{40,64} ([0-9a-f]{40,64})( -)?\n?$/.exec(words) ?? [];
  if (tip === undefined) throw refused("git in the VM gave no answer that can be read");
  return { tip, isEmpty: none !== undefined };
}

/** A commit that was brought in. */
async function brought(base: Store, id: string, known: string[]): Promise<string> {
  const news = await base.git.text([
    "rev-list",
    "-n",
    "1",
    `${id}^{commit}`,
    ...known.map((each) => `^${each}`),
  ])
    .catch(() => "unknown");
  if (news !== "") throw refused("it names a commit that it did not send");
  return id;
}

async function describe(
  found: Omit<UnitWork, "commits" | "hasUncommitted" | "isUnchanged">,
): Promise<UnitWork> {
  const { store: { git }, tip, unit } = found;
  const known = [`^${unit.work}`, ...unit.head ? [`^${unit.head}`] : []];
  const lines = (await git.text(["log", "--format=%H %s", tip, ...known])).split("\n").filter((line) =>
    line !== ""
  );
  const made = lines.filter((line) => !line.startsWith(`${tip} ${UNCOMMITTED}`));
  const [now, before] = await Promise.all(
    [tip, unit.work].map((id) => git.text(["rev-parse", `${id}^{tree}`])),
  );
  const isMoved = made.length > 0 || lines.length === 0 && tip !== unit.work && tip !== unit.head;
  return {
    ...found,
    commits: made.map((line) => line.split(" ")[0]),
    hasUncommitted: lines.length > made.length,
    isUnchanged: now === before && !isMoved,
  };
}

/** Counts a unit's commits and changed files that no branch of the person got by a pull. */
export async function untakenOf(
  { unit, store: { git }, tip, commits, isUnchanged }: UnitWork,
): Promise<{ commits: number; files: number }> {
  if (isUnchanged) return { commits: 0, files: 0 };
  // The guest commits the current files each time: compare their contents.
  const tree = await git.text(["rev-parse", `${tip}^{tree}`]);
  const left = { commits, files: await countChanges(git, unit.work, tip) };
  const taken = Object.entries(unit.pulled).map(([branch, pulled]): [string, string?] => [
    pulled,
    unit.squashed?.[branch],
  ]);
  if (unit.applied) taken.push([unit.applied.commit, unit.applied.head]);
  for (const [pulled, held] of taken) {
    const has = await git.text(["rev-parse", "--verify", "--quiet", `${pulled}^{tree}`]).catch(() =>
      undefined
    );
    // A branch that the person removed, with its objects.
    if (has === undefined) continue;
    // One that the guest has rewritten is no longer there, and its successors count.
    const isThere = held !== undefined && await git.succeeds(["cat-file", "-e", `${held}^{commit}`]);
    const without = [`^${pulled}`, `^${unit.work}`, ...isThere ? [`^${held}`] : []];
    const news = new Set((await git.text(["rev-list", tip, ...without])).split("\n"));
    const missing = commits.filter((commit) => news.has(commit));
    const files = has === tree ? 0 : await countChanges(git, pulled, tip);
    if (missing.length <= left.commits.length) left.commits = missing;
    if (files < left.files) left.files = files;
    if (missing.length + files === 0) break;
  }
  return { commits: left.commits.length, files: left.files };
}

/** Counts the work of all units that no pull took, and notes it beside the VM. */
export async function noteUntaken({ units, record, room }: Work): Promise<Untaken> {
  const counts = await Promise.all(units.map(untakenOf));
  const sum = (key: "commits" | "files") => counts.reduce((total, each) => total + each[key], 0);
  const untaken = { commits: sum("commits"), files: sum("files"), at: new Date().toISOString() };
  // Some sources alone say nothing about the others.
  if (units.length < returning(record).flatMap((source) => source.units).length) return untaken;
  await room.noteUntaken(untaken).catch(ignore("a list shows the earlier amount"));
  return untaken;
}

async function countChanges(git: Git, from: string, to: string): Promise<number> {
  const lines = await git.run(["diff-tree", "-r", "-z", "--no-renames", "--name-only", from, to]);
  return splitNul(lines).length;
}

/** git over the person's folder, which must still be of the kind brought in. */
async function personOf(dir: string, unit: Unit): Promise<Git> {
  const [source] = await sourcesOf(dir).catch((cause) => {
    throw new SbxError("repo.moved", `"${dir}" cannot be read any more`, {
      cause,
      hint: "move it back to where it was brought in from",
    });
  });
  if (source.isRepository === unit.is_repository) return source.git;
  throw new SbxError("repo.moved", `"${dir}" is ${source.isRepository ? "a" : "no"} git repository now`, {
    hint: "bring it into a new VM",
  });
}

// A guest's work in a separate store, checked before any other use.

/** Checked work of a guest. */
interface Incoming {
  /** has the new objects, and reads the brought-in ones */
  store: Store;
  /** commit of the state of the guest's files */
  tip: string;
}

/**
 * Takes a guest's bundle into a new store and checks everything that is new in it.
 *
 * @param base store of the brought-in state
 * @param known commits that were brought in
 * @throws {SbxError} `repo.refused`, `repo.too_large`; the store is then to be removed
 */
async function receive(
  bytes: AsyncIterable<Uint8Array>,
  base: Store,
  dir: string,
  known: string[],
): Promise<Incoming> {
  const store = await makeBeside(base, dir);
  const format = await base.git.text(["rev-parse", "--show-object-format"]);
  const { tip, pack } = await readBundle(bytes, format);
  await indexPack(store.git, pack, BUNDLE_MAX);
  const objects = await newObjects(store.git, join(store.dir, "objects"), INFLATED_MAX);
  using reader = new ObjectReader(store.git);
  const linkLines = await Promise.all(
    known.map(async (commit) => splitNul(await base.git.run(["ls-tree", "-r", "-z", "--full-tree", commit]))),
  );
  const check = new TreeCheck(reader, format === "sha256" ? 32 : 20, linksOf(linkLines.flat()));
  await check.readNew(objects.filter(({ type }) => type === "tree").map(({ id }) => id));
  await requireConnected(store.git, tip, known);
  for (const { tree } of await newCommits(store, tip, known)) await check.check(tree);
  await checkModules(store, tip, known, reader);
  return { store, tip };
}

async function newCommits(store: Store, tip: string, known: string[]): Promise<{ tree: string }[]> {
  if (!await store.git.succeeds(["cat-file", "-e", `${tip}^{commit}`])) {
    throw refused("its ref is not a commit");
  }
  const args = ["log", "--format=%T", tip, ...known.map((id) => `^${id}`)];
  const lines = (await store.git.text(args)).split("\n").filter((line) => line !== "");
  if (lines.length > COMMITS_MAX) throw tooLarge(`more than ${COMMITS_MAX} commits`);
  return [...new Set(lines)].map((tree) => ({ tree }));
}
