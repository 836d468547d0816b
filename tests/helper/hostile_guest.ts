/** A guest that answers what it likes, and objects that no honest git writes. */
import { join } from "node:path";
import { SbxError } from "../../lib/base/error/mod.ts";
import { changesOf, type Guest, pullWork } from "../../lib/repo/mod.ts";
import { git, sh, type World } from "./repository.ts";

/** A guest that says its work is `tip`, and sends `bundle`. */
export class HostileGuest implements Guest {
  readonly name = "demo";
  readonly workspace = "/workspace";

  constructor(
    readonly tip: string,
    readonly bundle: AsyncIterable<Uint8Array>,
    readonly answer = `${tip} ${tip}\n`,
  ) {}

  run() {
    return Promise.resolve({ code: 0, stdout: this.answer, stderr: "" });
  }

  upload(): Promise<void> {
    return Promise.reject(new Error("nothing is sent here"));
  }

  download() {
    return Promise.resolve({ body: this.bundle });
  }
}

/** One entry of a tree; its name as bytes or text. */
export type RawEntry = [mode: string, name: string | Uint8Array, id: string];

/** Makes git compress little: its objects are read once here. */
const QUICK = ["-c", "core.compression=1", "-c", "pack.compression=1"];

/** Objects in the guest's repository, written without any check. */
export class Forge {
  constructor(readonly dir: string) {}

  static of(world: World): Forge {
    return new Forge(world.inside);
  }

  blob(text: string): Promise<string> {
    return this.#write("blob", new TextEncoder().encode(text));
  }

  tree(entries: RawEntry[]): Promise<string> {
    const encoder = new TextEncoder();
    // Three bytes of UTF-8 at most for each unit of a text; a tree may have hundreds of thousands of entries.
    const size = entries.reduce((sum, [mode, name]) => sum + 3 * (mode.length + name.length) + 22, 0);
    const bytes = new Uint8Array(size);
    let at = 0;
    for (const [mode, name, id] of entries) {
      at += encoder.encodeInto(`${mode} `, bytes.subarray(at)).written;
      if (typeof name === "string") at += encoder.encodeInto(name, bytes.subarray(at)).written;
      else {
        bytes.set(name, at);
        at += name.length;
      }
      at += 1 + bytes.subarray(at + 1).setFromHex(id).written;
    }
    return this.#write("tree", bytes.subarray(0, at));
  }

  async commit(tree: string, parents?: string[], message = "work"): Promise<string> {
    const above = parents ?? [await git(this.dir, "rev-parse", "HEAD")];
    return await git(this.dir, "commit-tree", tree, ...above.flatMap((id) => ["-p", id]), "-m", message);
  }

  /** Bytes of a bundle of a commit, without what was brought in. */
  async bundle(tip: string, known = ["HEAD"], ref = "refs/sbx/out"): Promise<Uint8Array> {
    const path = join(this.dir, "..", "hostile.bundle");
    await git(this.dir, "update-ref", ref, tip);
    await git(this.dir, ...QUICK, "bundle", "create", "-q", path, ref, ...known.map((id) => `^${id}`));
    return await Deno.readFile(path);
  }

  async #write(type: string, bytes: Uint8Array): Promise<string> {
    const path = join(this.dir, "..", "object");
    await Deno.writeFile(path, bytes);
    return await git(this.dir, ...QUICK, "hash-object", "-t", type, "--literally", "-w", path);
  }
}

export async function* bytesOf(...parts: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* parts;
}

/** Everything of a person's folder, its repository included. */
export function everything(dir: string): Promise<string> {
  return sh(
    dir,
    "find . -printf '%p %y %m %l\\n' | sort; find . -type f -print0 | sort -z | xargs -0 sha1sum",
  );
}

/**
 * Takes a tip of a forged repository, as sbx pull does.
 * @returns the code of the refusal; undefined if it was taken
 */
export async function take(world: World, tip: string, bundle?: Uint8Array): Promise<string | undefined> {
  const bytes = bundle ?? await Forge.of(world).bundle(tip);
  return await takeFrom(world, new HostileGuest(tip, bytesOf(bytes)));
}

/**
 * Takes what a guest sends. A refusal must leave the person's folder and the room beside the VM as they were.
 */
export async function takeFrom(world: World, guest: Guest): Promise<string | undefined> {
  const before = await everything(world.person);
  const room = await sh(world.room, "find . -maxdepth 1 ! -name '.*lock' | sort");
  try {
    await using work = await world.collect(guest);
    for (const unit of work.units) await changesOf(unit);
    await pullWork(work);
    return undefined;
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    if (await everything(world.person) !== before) throw new Error("the person's folder was changed");
    if (await sh(world.room, "find . -maxdepth 1 ! -name '.*lock' | sort") !== room) {
      throw new Error("something stayed in the room");
    }
    return error.code;
  }
}
