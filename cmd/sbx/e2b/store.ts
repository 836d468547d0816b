/** Sandboxes that clients of E2B made: which VMs they are, when they end, and who may use them. */
import { z } from "zod";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { lockWithin, writeAtomic } from "../../../lib/base/home/mod.ts";

/** Characters of a sandbox's id, which is a label of host names. */
const ID_LENGTH = 20;
/** Bytes of a sandbox's access token. */
const TOKEN_BYTES = 32;
/** `bytes` of the state; more is refused, since it is written whole. */
const STATE_MAX = 16 * 1024 * 1024;

/** `ms` to wait for the lock of a server that ends just now. */
const LOCK_MS = 1000;

const Sandbox = z.strictObject({
  id: z.string(),
  vm: z.string().describe("id of the VM"),
  template: z.string(),
  /** sandbox-scoped secret of its files, programs and ports */
  token: z.string(),
  metadata: z.record(z.string(), z.string()),
  started_at: z.int(),
  /** unix ms at which it ends or pauses */
  ends_at: z.int(),
  on_timeout: z.enum(["kill", "pause"]),
  auto_resume: z.boolean(),
  allows_internet: z.boolean(),
  is_paused: z.boolean(),
});
export type Sandbox = z.infer<typeof Sandbox>;

const Snapshot = z.strictObject({
  id: z.string(),
  vm: z.string().describe("id of the VM that new ones are copies of"),
  sandbox: z.string(),
  names: z.array(z.string()),
  created_at: z.int(),
});
export type Snapshot = z.infer<typeof Snapshot>;

const State = z.strictObject({
  version: z.literal(1),
  sandboxes: z.array(Sandbox),
  snapshots: z.array(Snapshot),
});

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";

/** A random id, such as `x3k9…`. */
export function newId(): string {
  // 36 characters of 256 bytes: the bias of 7 in 256 leaves more than 100 bits.
  const bytes = crypto.getRandomValues(new Uint8Array(ID_LENGTH));
  return Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join("");
}

export function newToken(): string {
  return crypto.getRandomValues(new Uint8Array(TOKEN_BYTES)).toHex();
}

/**
 * Token of a sandbox's ports and of its code interpreter. Derived, so that it opens neither
 * files nor programs where a client hands it on with the address of a port.
 */
export async function trafficToken({ token }: Pick<Sandbox, "token">): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(`${token}:traffic`));
  return new Uint8Array(digest).toHex();
}

/**
 * Takes the file for this server alone. Two servers would each write their own sandboxes over the other
 * one's, whose VMs would then never end.
 *
 * @throws {SbxError} `e2b.running`
 */
export async function claimStore(path: string): Promise<Disposable> {
  const file = await Deno.open(`${path}.lock`, { create: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_MS)) return file;
  file.close();
  throw new SbxError("e2b.running", "another sbx e2b serves this home", {
    hint: "one server takes any number of clients: use its address and key, or end it first",
  });
}

/** The sandboxes and snapshots of one home, kept in a file that its user alone can read. */
export class Store {
  readonly #path: string;
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #snapshots = new Map<string, Snapshot>();
  /** the last write; writes follow each other */
  #tail: Promise<void> = Promise.resolve();

  private constructor(path: string) {
    this.#path = path;
  }

  /** @throws {SbxError} `e2b.invalid`: the file is not one of this version */
  static async open(path: string): Promise<Store> {
    const store = new Store(path);
    let text: string;
    try {
      text = await Deno.readTextFile(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return store;
      throw error;
    }
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      json = undefined;
    }
    const { data, error } = State.safeParse(json);
    if (!data) {
      throw new SbxError("e2b.invalid", `${path} does not list the sandboxes of E2B clients`, {
        cause: error,
        hint: `remove it: the VMs named in it stay (sbx list shows them)`,
      });
    }
    for (const each of data.sandboxes) store.#sandboxes.set(each.id, each);
    for (const each of data.snapshots) store.#snapshots.set(each.id, each);
    return store;
  }

  get(id: string): Sandbox | undefined {
    return this.#sandboxes.get(id);
  }

  /** Oldest first. */
  all(): Sandbox[] {
    return [...this.#sandboxes.values()].sort((a, b) =>
      a.started_at - b.started_at || (a.id < b.id ? -1 : 1)
    );
  }

  /** @throws {SbxError} `e2b.too_many`: the state stays as it was */
  async put(sandbox: Sandbox): Promise<void> {
    await this.#put(this.#sandboxes, sandbox);
  }

  async remove(id: string): Promise<void> {
    if (this.#sandboxes.delete(id)) await this.#save();
  }

  /** By id or name. */
  snapshot(idOrName: string): Snapshot | undefined {
    return this.#snapshots.get(idOrName) ??
      this.snapshots().findLast(({ names }) => names.includes(idOrName));
  }

  /** Oldest first. */
  snapshots(): Snapshot[] {
    return [...this.#snapshots.values()].sort((a, b) => a.created_at - b.created_at);
  }

  /** @throws {SbxError} `e2b.too_many`: the state stays as it was */
  async putSnapshot(snapshot: Snapshot): Promise<void> {
    await this.#put(this.#snapshots, snapshot);
  }

  async removeSnapshot(id: string): Promise<void> {
    if (this.#snapshots.delete(id)) await this.#save();
  }

  async #put<T extends { id: string }>(all: Map<string, T>, value: T): Promise<void> {
    const before = all.get(value.id);
    all.set(value.id, value);
    if (this.#text().length > STATE_MAX) {
      // Otherwise no later change could be written either, not even a removal.
      if (before) all.set(value.id, before);
      else all.delete(value.id);
      throw new SbxError("e2b.too_many", "the sandboxes and their metadata take more than 16 MiB", {
        hint: "end sandboxes, or give them less metadata",
      });
    }
    await this.#save();
  }

  #text(): string {
    return JSON.stringify({ version: 1, sandboxes: this.all(), snapshots: this.snapshots() });
  }

  #save(): Promise<void> {
    const saved = this.#tail.then(() => writeAtomic(this.#path, this.#text()));
    this.#tail = saved.catch(() => {/* the caller has the failure; the next write has all of it */});
    return saved;
  }
}
