/**
 * Earlier states of the repositories and folders in a VM, kept on the host, where no program of
 * the guest reaches them. Stores of git beside the VM have the objects that the guest sent,
 * which go nowhere but back to it.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import { folderStore, placeIn } from "./bring.ts";
import { Git } from "./git.ts";
import { readBundle } from "./git_bundle.ts";
import {
  BRANCH,
  carriedName,
  collectIn,
  type Guest,
  HAVE,
  removeCarried,
  REWIND,
  runScript,
} from "./guest.ts";
import {
  STATE_DAYS,
  STATE_LIMITS,
  type StateLimits,
  STATES_MAX,
  STEP_SECONDS,
  TURN_LIMITS,
  TURN_STATES_MAX,
  UNDO_LIMITS,
} from "./limit.ts";
import { indexPack, newObjects, requireConnected } from "./pack.ts";
import { type RecordedSource, returning, type Unit } from "./record.ts";
import { refused, tooLarge } from "./refusal.ts";
import { makeBeside, quoted, Room, type Store } from "./store.ts";

const StateUnit = z.strictObject({
  store: z.string().regex(/^[0-9]+\.git$/),
  head: z.string(),
  branch: z.string().optional(),
  tip: z.string().describe("commit of the files; the head itself, or one on top of it"),
});

const State = z.strictObject({
  number: z.int().min(1),
  at_unix_ms: z.int(),
  reason: z.string(),
  turn: z.literal(true).optional().describe("kept before a turn of an agent, which decides when it has one"),
  units: z.array(StateUnit),
});
/** One state of all repositories and folders of a VM. */
export type State = z.infer<typeof State>;

const States = z.strictObject({ version: z.literal(1), next: z.int().min(1), states: z.array(State) });
type States = z.infer<typeof States>;

/** Where to go back to; nothing: the newest other state. */
export interface StateTarget {
  number?: number;
  /** the newest state that is not later */
  before_unix_ms?: number;
}

/**
 * The end of an undo: the state that is there, and the one that was; that was not
 * kept where it was to be discarded.
 */
export interface Undone {
  to: State;
  before?: State;
  changed: boolean;
}

/** A state about to be kept. */
type Kept = Pick<State, "reason" | "turn"> & { at_unix_ms?: number };

/** The states of one VM. */
export class History {
  readonly #room: Room;

  /** @param room folder beside the VM's record */
  constructor(readonly guest: Guest, room: string) {
    this.#room = new Room(room);
  }

  /** Oldest first. */
  async list(): Promise<State[]> {
    return (await this.#read()).states;
  }

  /**
   * Keeps the current state.
   *
   * @returns undefined: it is as the newest one, or nothing was brought in
   * @throws {SbxError} `repo.too_large`, `repo.refused`, `repo.guest_failed`
   */
  async keep(reason: string): Promise<State | undefined> {
    if (await this.#room.read() === undefined) return undefined;
    using _lock = await this.#room.lock();
    return (await this.#keep({ reason })).made;
  }

  /**
   * Keeps the state before a turn of an agent, within narrower limits, and without a wait for other programs.
   * These push out none of the others: a guest decides when it has a turn.
   *
   * @param at_unix_ms when the turn began
   * @throws {SbxError} as {@linkcode keep}, `repo.busy`
   */
  async keepTurn(at_unix_ms: number, limits = TURN_LIMITS): Promise<State | undefined> {
    if (await this.#room.read() === undefined) return undefined;
    using _lock = await this.#room.lock("take", limits.wait_ms);
    return (await this.#keep({ reason: "before a turn of the agent", at_unix_ms, turn: true }, limits)).made;
  }

  /**
   * Puts an earlier state back. The current one is kept first, so that this can be undone.
   *
   * @returns `changed`: the repositories were in another state
   * @throws {SbxError} `repo.none`, `repo.no_state`; `repo.too_large`: the current state cannot
   * be kept, and nothing is changed
   */
  async undo(target: StateTarget = {}, limits = UNDO_LIMITS): Promise<Undone> {
    await this.#requireRoom();
    using _lock = await this.#room.lock();
    const { now, states } = await this.#keep({ reason: "before an undo" }, limits).catch((error) => {
      throw isTooLarge(error) ? this.#unkept(error) : error;
    });
    const to = find(states, target) ?? (isOpen(target) ? await this.#newestOther(states, now) : undefined);
    if (!to) throw noState(this.guest.name);
    // Asked again: it is there.
    if (await this.#isSame(to, now)) return { to, before: now, changed: false };
    await this.#put(to);
    await this.#add({ reason: `back at ${to.number}` }, [
      ...to.units,
      ...now.units.filter(({ store }) => !to.units.some((unit) => unit.store === store)),
    ]);
    return { to, before: now, changed: true };
  }

  /**
   * Puts an earlier state back, the newest one without a target. The current one is lost.
   *
   * @throws {SbxError} `repo.no_state`
   */
  async discard(target: StateTarget = {}): Promise<Undone> {
    await this.#requireRoom();
    using _lock = await this.#room.lock();
    const { states } = await this.#read();
    const to = find(states, target) ?? (isOpen(target) ? states.at(-1) : undefined);
    if (!to) throw noState(this.guest.name);
    await this.#put(to);
    if (to !== states.at(-1)) await this.#add({ reason: `back at ${to.number}` }, to.units);
    return { to, changed: true };
  }

  /**
   * Puts a state of this VM into a copy of it, whose own states are its own.
   *
   * @throws {SbxError} `repo.no_state`
   */
  async putInto(copy: Guest, number: number): Promise<void> {
    await this.#requireRoom();
    using _lock = await this.#room.lock();
    const to = find((await this.#read()).states, { number });
    if (!to) throw noState(this.guest.name);
    await this.#put(to, copy);
  }

  async #requireRoom(): Promise<void> {
    if (await this.#room.read() === undefined) throw noState(this.guest.name);
  }

  async #put(to: State, guest = this.guest): Promise<void> {
    for (const { source, unit } of await this.#units()) {
      const state = to.units.find(({ store }) => store === unit.store);
      // One that was brought in later stays.
      if (state) await this.#rewind(guest, source, unit, state);
    }
  }

  /** The error of an undo whose work cannot be kept first. */
  #unkept(cause: SbxError): SbxError {
    const { name } = this.guest;
    return new SbxError(
      "repo.too_large",
      `the work in "${name}" is too large to be kept before it is undone, and nothing was changed`,
      {
        cause,
        hint: `sbx undo ${name} --discard goes back without keeping it; sbx pull ${name} takes it first`,
      },
    );
  }

  /** Adds a state whose objects are there; the oldest go. */
  async #add(
    { reason, at_unix_ms = Date.now(), turn }: Kept,
    units: State["units"],
  ): Promise<{ made: State; states: State[] }> {
    const { next, states } = await this.#read();
    const made: State = { number: next, at_unix_ms, reason, ...turn && { turn }, units };
    for (const { store, tip } of units) {
      await Git.ofStore(this.#path(store)).run(["update-ref", refOf(next), tip]);
    }
    const kept = inLimits([...states, made]);
    await this.#write({ version: 1, next: next + 1, states: kept });
    for (const { number, units } of states.filter((state) => !kept.includes(state))) {
      for (const { store } of units) {
        await Git.ofStore(this.#path(store)).run(["update-ref", "-d", refOf(number)]);
      }
    }
    return { made, states: kept };
  }

  /** The sources whose work comes back, by unit; a live one is the person's own folder. */
  async #units(): Promise<{ source: RecordedSource; unit: Unit }[]> {
    const record = await this.#room.read();
    const sources = record ? returning(record).filter(({ is_live }) => !is_live) : [];
    return sources.flatMap((source) => source.units.map((unit) => ({ source, unit })));
  }

  async #keep(
    kept: Kept,
    limits = STATE_LIMITS,
  ): Promise<{ now: State; states: State[]; made?: State }> {
    const { states } = await this.#read();
    // Of all units together.
    const left = { ...limits };
    const last = states.at(-1);
    const units: State["units"] = [];
    for (const { source, unit } of await this.#units()) {
      const before = last?.units.find(({ store }) => store === unit.store);
      const taken = await this.#take(source, unit, left, before).catch((error) => {
        // Removed by the guest: earlier states can be put back all the same.
        if (error instanceof SbxError && error.code === "repo.guest_missing") return undefined;
        throw error;
      });
      if (taken) units.push(taken);
    }
    if (last && await this.#isSame(last, { ...last, units })) return { now: last, states };
    const added = await this.#add(kept, units);
    return { now: added.made, ...added };
  }

  /** Takes the current state of one unit into its store. */
  async #take(source: RecordedSource, unit: Unit, left: StateLimits, before?: State["units"][number]) {
    const { guest } = this;
    const place = placeIn(source.place, unit.path);
    const store = await this.#store(unit);
    const known = [unit.work, ...unit.head ? [unit.head] : [], ...before ? [before.tip, before.head] : []];
    const name = carriedName();
    const file = `${guest.workspace}/${name}`;
    try {
      const args = [place, file, unit.is_repository ? "" : folderStore(place), ...known];
      const words = await collectIn(guest, this.#room, args, left.seconds);
      const [, head, tip, none] = /^([0-9a-f]{40,64}) ([0-9a-f]{40,64})( -)?\n?$/.exec(words) ?? [];
      if (tip === undefined) throw refused("git in the VM gave no answer that can be read");
      // Its word is not enough: missing objects cannot be put back.
      const require = async (git: Git) => {
        for (const id of [tip, head]) await requireConnected(git, id, known);
      };
      if (none === undefined) await this.#receive(store, { name, tip }, left, require);
      else await require(store.git);
      const branch = unit.is_repository ? (await runScript(guest, BRANCH, [place], left.seconds)).trim() : "";
      const isName = branch !== "" && await store.git.succeeds(["check-ref-format", `refs/heads/${branch}`]);
      return { store: unit.store, head, ...isName && { branch }, tip };
    } finally {
      await removeCarried(guest, name, left.seconds);
    }
  }

  /**
   * Takes a bundle into a folder beside the objects of a store; they are moved there when all is checked.
   *
   * @param left remaining costs of the state, which this lowers
   * @param require checks with a git that sees both
   */
  async #receive(
    store: Store,
    { name, tip }: { name: string; tip: string },
    left: StateLimits,
    require: (git: Git) => Promise<void>,
  ): Promise<void> {
    const incoming = join(store.dir, INCOMING);
    // Of a program that was killed: the lock is held.
    await removeAll(incoming);
    await Deno.mkdir(join(incoming, "pack"), { recursive: true, mode: 0o700 });
    try {
      const format = await store.git.text(["rev-parse", "--show-object-format"]);
      const git = store.git.with({
        GIT_OBJECT_DIRECTORY: incoming,
        GIT_ALTERNATE_OBJECT_DIRECTORIES: quoted(join(store.dir, "objects")),
      });
      const receive = async (room: number) => {
        const counted = { bytes: 0 };
        const max = Math.min(left.bytes, room);
        const { body } = await this.guest.download(name);
        const bundle = await readBundle(limited(body, max, counted), format);
        if (bundle.tip !== tip) throw refused("its bundle has another commit than it says");
        await indexPack(git, bundle.pack, max);
        return counted.bytes;
      };
      const room = left.all - await this.#bytes();
      const bytes = await receive(room).catch(async (error) => {
        if (!isTooLarge(error) || room >= left.bytes) throw error;
        // Removes the objects that only removed states had.
        await store.git.run(["repack", "-a", "-d", "-l", "-q"]);
        await removeAll(join(incoming, "pack"));
        return await receive(left.all - await this.#bytes());
      });
      const objects = await newObjects(git, incoming, left.inflated);
      await require(git);
      left.bytes -= bytes;
      left.inflated -= objects.reduce((sum, { size }) => sum + size, 0);
      await moveAll(join(incoming, "pack"), join(store.dir, "objects", "pack"));
    } finally {
      await removeAll(incoming);
    }
  }

  async #rewind(
    guest: Guest,
    source: RecordedSource,
    unit: Unit,
    state: State["units"][number],
  ): Promise<void> {
    const place = placeIn(source.place, unit.path);
    const folder = unit.is_repository ? "" : folderStore(place);
    const { git, dir } = await this.#store(unit);
    const asked = [unit.work, ...unit.head ? [unit.head] : [], state.head];
    const words = await runScript(guest, HAVE, [place, folder, ...asked], STEP_SECONDS);
    const there = words.split("\n").filter((id) => asked.includes(id) && id !== state.tip);
    await git.run(["update-ref", "refs/sbx/undo", state.tip]);
    const bundle = `.sbx-in-${crypto.randomUUID()}`;
    // With the tip's own commit at least: git makes no empty bundle.
    const without = state.tip === state.head && there.includes(state.head) ? [] : there;
    const args = ["bundle", "create", "--quiet", "-", "refs/sbx/undo", ...without.map((id) => `^${id}`)];
    await guest.upload(bundle, git.stream(args));
    const format = await git.text(["rev-parse", "--show-object-format"]);
    const shallow = await ifFound(Deno.readTextFile(join(dir, "shallow"))) ?? "";
    await runScript(guest, REWIND, [
      place,
      `${guest.workspace}/${bundle}`,
      folder,
      state.head,
      state.branch ?? "",
      state.tip,
      format,
      shallow.trim(),
    ], STEP_SECONDS);
  }

  async #newestOther(states: State[], now: State): Promise<State | undefined> {
    for (const state of states.toReversed()) if (!await this.#isSame(state, now)) return state;
    return undefined;
  }

  /**
   * Whether two states have the same files and commits; sbx's own commit of the
   * same files differs by its time.
   */
  async #isSame(one: State, other: State): Promise<boolean> {
    if (one.units.length !== other.units.length) return false;
    for (const { store, head, branch, tip } of one.units) {
      const twin = other.units.find((unit) => unit.store === store);
      if (!twin || twin.head !== head || twin.branch !== branch) return false;
      const git = Git.ofStore(this.#path(store));
      const trees = await Promise.all([tip, twin.tip].map((id) => git.text(["rev-parse", `${id}^{tree}`])));
      if (trees[0] !== trees[1]) return false;
    }
    return true;
  }

  async #store(unit: Unit): Promise<Store> {
    const dir = this.#path(unit.store);
    const base = this.#room.store(unit.store);
    if (await ifFound(Deno.lstat(join(dir, "HEAD")))) return { dir, git: Git.ofStore(dir), alternates: "" };
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return await makeBeside({ dir: base, git: Git.ofStore(base), alternates: "" }, dir);
  }

  /** `bytes` of all states. */
  async #bytes(): Promise<number> {
    let sum = 0;
    for await (const { name, isDirectory } of Deno.readDir(this.#dir)) {
      if (!isDirectory) continue;
      const fields = await Git.ofStore(join(this.#dir, name)).text(["count-objects", "-v"]);
      for (const [, kib] of fields.matchAll(/^size(?:-pack)?: (\d+)$/gm)) sum += Number(kib) * 1024;
    }
    return sum;
  }

  async #read(): Promise<States> {
    const text = await ifFound(Deno.readTextFile(join(this.#dir, "states.json")));
    if (text === undefined) return { version: 1, next: 1, states: [] };
    try {
      return States.parse(JSON.parse(text));
    } catch (cause) {
      throw new SbxError("repo.damaged", `"${join(this.#dir, "states.json")}" cannot be read`, {
        cause,
        hint: "remove its folder; earlier states are lost then",
      });
    }
  }

  async #write(states: States): Promise<void> {
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    await writeAtomic(join(this.#dir, "states.json"), JSON.stringify(states, null, 2));
  }

  #path(store: string): string {
    return join(this.#dir, store);
  }

  get #dir(): string {
    return join(this.#room.dir, "undo");
  }
}

const refOf = (number: number) => `refs/sbx/state/${number}`;

/** Folder of a store with a pack that is not checked yet. */
const INCOMING = "incoming";

/** States without the ones that are too old or too many. */
function inLimits(states: State[], now = Date.now()): State[] {
  const newest = states.at(-1);
  const young = states.filter((state) =>
    state === newest || now - state.at_unix_ms <= STATE_DAYS * 24 * 3600 * 1000
  );
  const kept = new Set([
    ...young.filter(({ turn }) => !turn).slice(-STATES_MAX),
    ...young.filter(({ turn }) => turn).slice(-TURN_STATES_MAX),
  ]);
  return young.filter((state) => kept.has(state));
}

async function removeAll(dir: string): Promise<void> {
  await ifFound(Deno.remove(dir, { recursive: true }));
}

/** Moves the files of a pack; its index last, by which git finds it. */
async function moveAll(from: string, to: string): Promise<void> {
  await Deno.mkdir(to, { recursive: true });
  const names = await Array.fromAsync(Deno.readDir(from), ({ name }) => name);
  const isIndex = (name: string) => Number(name.endsWith(".idx"));
  for (const name of names.toSorted((one, other) => isIndex(one) - isIndex(other))) {
    await Deno.rename(join(from, name), join(to, name));
  }
}

function mibOf(bytes: number): string {
  return `${Math.floor(bytes / 1024 ** 2)} MiB`;
}

/** @param counted has the number of `bytes` that were read */
async function* limited(
  bytes: AsyncIterable<Uint8Array>,
  max: number,
  counted: { bytes: number },
): AsyncGenerator<Uint8Array> {
  for await (const chunk of bytes) {
    counted.bytes += chunk.length;
    if (counted.bytes > max) {
      throw tooLarge(`a state of more than the ${mibOf(Math.max(0, max))} that are left for it`);
    }
    yield chunk;
  }
}

/** The state that a target names. @returns undefined: it names no state that is kept */
function find(states: State[], { number, before_unix_ms }: StateTarget): State | undefined {
  if (number !== undefined) return states.find((state) => state.number === number);
  if (before_unix_ms === undefined) return undefined;
  return states.findLast(({ at_unix_ms }) => at_unix_ms <= before_unix_ms);
}

function isOpen({ number, before_unix_ms }: StateTarget): boolean {
  return number === undefined && before_unix_ms === undefined;
}

function isTooLarge(error: unknown): error is SbxError {
  return error instanceof SbxError && error.code === "repo.too_large";
}

function noState(name: string): SbxError {
  return new SbxError("repo.no_state", `"${name}" has no such state of its repositories`, {
    hint: `sbx undo ${name} --list shows the states that are kept`,
  });
}
