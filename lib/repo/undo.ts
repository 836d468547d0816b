/**
 * Earlier states of the repositories and folders in a VM, kept on the host, where no program of the guest reaches them.
 * Stores of git beside the VM have the objects that the guest sent, which go nowhere but back to it.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, ignore, SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import { folderStore, placeIn } from "./bring.ts";
import { Git, readBundle, refused, tooLarge } from "./git.ts";
import { BRANCH, COLLECT, type Guest, HAVE, REWIND, runScript } from "./guest.ts";
import { STATE_BYTES_MAX, STATES_BYTES_MAX, STATES_MAX, STEP_SECONDS } from "./limit.ts";
import { type RecordedSource, returning, type Unit } from "./record.ts";
import { makeBeside, Room, type Store } from "./store.ts";

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
    return (await this.#keep(reason)).made;
  }

  /**
   * Puts an earlier state back. The current one is kept first, so that this can be undone.
   *
   * @throws {SbxError} `repo.none`, `repo.no_state`
   */
  async undo(target: StateTarget = {}): Promise<{ to: State; before: State }> {
    if (await this.#room.read() === undefined) throw noState(`nothing was brought into "${this.guest.name}"`);
    using _lock = await this.#room.lock();
    const { now, states } = await this.#keep("before an undo");
    const to = target.number !== undefined
      ? states.find(({ number }) => number === target.number)
      : target.before_unix_ms !== undefined
      ? states.findLast(({ at_unix_ms }) => at_unix_ms <= target.before_unix_ms!)
      : await this.#newestOther(states, now);
    if (!to) throw noState(`"${this.guest.name}" has no such state of its repositories`);
    for (const { source, unit } of await this.#units()) {
      const state = to.units.find(({ store }) => store === unit.store);
      // One that was brought in later stays.
      if (state) await this.#rewind(source, unit, state);
    }
    await this.#add(`back at ${to.number}`, [
      ...to.units,
      ...now.units.filter(({ store }) => !to.units.some((unit) => unit.store === store)),
    ]);
    return { to, before: now };
  }

  /** Adds a state whose objects are there; the oldest go. */
  async #add(reason: string, units: State["units"]): Promise<{ made: State; states: State[] }> {
    const { next, states } = await this.#read();
    const made = { number: next, at_unix_ms: Date.now(), reason, units };
    for (const { store, tip } of units) {
      await Git.ofStore(this.#path(store)).run(["update-ref", refOf(next), tip]);
    }
    const kept = [...states, made].slice(-STATES_MAX);
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

  async #keep(reason: string): Promise<{ now: State; states: State[]; made?: State }> {
    const { states } = await this.#read();
    const last = states.at(-1);
    const units: State["units"] = [];
    for (const { source, unit } of await this.#units()) {
      const before = last?.units.find(({ store }) => store === unit.store);
      const taken = await this.#take(source, unit, before).catch((error) => {
        // Removed by the guest: earlier states can be put back all the same.
        if (error instanceof SbxError && error.code === "repo.guest_missing") return undefined;
        throw error;
      });
      if (taken) units.push(taken);
    }
    if (last && await this.#isSame(last, { ...last, units })) return { now: last, states };
    const { made, states: kept } = await this.#add(reason, units);
    return { now: made, states: kept, made };
  }

  /** Takes the current state of one unit into its store. */
  async #take(source: RecordedSource, unit: Unit, before?: State["units"][number]) {
    const { guest } = this;
    const place = placeIn(source.place, unit.path);
    const store = await this.#store(unit);
    const known = [unit.work, ...unit.head ? [unit.head] : [], ...before ? [before.tip, before.head] : []];
    const name = `.sbx-out-${crypto.randomUUID()}`;
    const file = `${guest.workspace}/${name}`;
    try {
      const args = [place, file, unit.is_repository ? "" : folderStore(place), ...known];
      const words = await runScript(guest, COLLECT, args, STEP_SECONDS);
      const [, head, tip, none] = /^([0-9a-f]{40,64}) ([0-9a-f]{40,64})( -)?\n?$/.exec(words) ?? [];
      if (tip === undefined) throw refused("git in the VM gave no answer that can be read");
      if (none === undefined) await this.#receive(store, name, tip);
      // Its word is not enough: missing objects cannot be put back.
      for (const id of [tip, head]) {
        await store.git.run(["rev-list", "--objects", "--quiet", id, ...known.map((id) => `^${id}`)]).catch(
          () => {
            throw refused("parts of its state are missing");
          },
        );
      }
      const branch = unit.is_repository ? (await runScript(guest, BRANCH, [place], STEP_SECONDS)).trim() : "";
      const isName = branch !== "" && await store.git.succeeds(["check-ref-format", `refs/heads/${branch}`]);
      return { store: unit.store, head, ...isName && { branch }, tip };
    } finally {
      await guest.run(["rm", "-f", "--", file], STEP_SECONDS).catch(
        ignore("the VM has ended, and the file with it"),
      );
    }
  }

  async #receive(store: Store, name: string, tip: string): Promise<void> {
    // Of a program that was killed.
    await removeBroken(store);
    const { body } = await this.guest.download(name);
    let room = STATES_BYTES_MAX - await this.#bytes();
    if (room < STATE_BYTES_MAX) {
      // Without the objects that only states had that are gone.
      await store.git.run(["repack", "-a", "-d", "-l", "-q"]);
      room = STATES_BYTES_MAX - await this.#bytes();
    }
    const format = await store.git.text(["rev-parse", "--show-object-format"]);
    const bundle = await readBundle(limited(body, Math.min(STATE_BYTES_MAX, room)), format);
    if (bundle.tip !== tip) throw refused("its bundle has another commit than it says");
    try {
      await store.git.run(["index-pack", "--stdin", "--fix-thin", "--strict"], { input: bundle.pack });
    } catch (error) {
      await removeBroken(store);
      throw error;
    }
  }

  async #rewind(source: RecordedSource, unit: Unit, state: State["units"][number]): Promise<void> {
    const { guest } = this;
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

  /** Whether two states have the same files and commits; sbx's own commit of the same files differs by its time. */
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

/** Removes packs that broke off: git leaves them, and counts them as no pack. The lock is held. */
async function removeBroken({ dir }: Store): Promise<void> {
  const packs = join(dir, "objects", "pack");
  for await (const { name } of Deno.readDir(packs)) {
    if (name.startsWith("tmp_")) await Deno.remove(join(packs, name));
  }
}

async function* limited(bytes: AsyncIterable<Uint8Array>, max: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of bytes) {
    size += chunk.length;
    if (size > max) throw tooLarge(`a state of more than the ${Math.max(0, max)} bytes that are left for it`);
    yield chunk;
  }
}

function noState(message: string): SbxError {
  return new SbxError("repo.no_state", message, {
    hint: "sbx undo NAME --list shows the states that are kept",
  });
}
