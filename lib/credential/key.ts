/** Key that encrypts the credential store, in the keyring of the OS or in a file. */
import { dirname, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3 } from "../base/hash/mod.ts";
import { accessProblem, writeAtomic } from "../base/home/mod.ts";
import type { KeyPlace } from "./entry.ts";
import { timeLimit } from "../base/time/mod.ts";

/** AES-256 key as stored in the keyring and in the key file. */
const KEY_HEX = /^[0-9a-f]{64}$/;

/** Key of a store, and its location. */
export interface StoreKey {
  place: KeyPlace;
  key: CryptoKey;
}

/**
 * Creates and finds the key of one store: in the OS keyring, or without one in a file of mode 0600 beside the
 * store.
 */
export class KeyChain {
  readonly #path: string;
  readonly #account: string;
  readonly #keyring?: Keyring;
  #cached?: StoreKey;

  /** @param storePath path of the store's file; each store of a user has its own key */
  constructor(storePath: string, keyring: Keyring | undefined = findKeyring()) {
    this.#path = join(dirname(storePath), "store.key");
    this.#account = `credential-store-${blake3(storePath).slice(0, 16)}`;
    this.#keyring = keyring;
  }

  /**
   * Finds the key a store is sealed with.
   *
   * @throws {SbxError} `credential.key_missing`, `credential.store_insecure`
   */
  async find(place: KeyPlace): Promise<StoreKey> {
    if (this.#cached?.place.id === place.id) return this.#cached;
    const hex = place.in === "keyring" ? await this.#keyring?.get(this.#account) : this.#readFile();
    if (hex === undefined) throw this.#missingError(place, "is missing");
    if (!KEY_HEX.test(hex) || keyId(hex) !== place.id) {
      throw this.#missingError(place, "does not belong to it");
    }
    return this.#cached = await importKey(hex, place);
  }

  /**
   * Creates a key that later processes can find. An existing key, of a store since removed, is used again.
   */
  async make(): Promise<StoreKey> {
    const hex = crypto.getRandomValues(new Uint8Array(32)).toHex();
    if (this.#keyring) {
      const existing = await this.#keyring.get(this.#account);
      if (existing === undefined) await this.#keyring.set(this.#account, hex);
      // A locked or broken keyring accepts a key and does not return it.
      const stored = existing ?? await this.#keyring.get(this.#account);
      if (stored !== undefined && KEY_HEX.test(stored)) return await this.#cache(stored, "keyring");
    }
    const existing = this.#readFile();
    if (existing !== undefined && KEY_HEX.test(existing)) return await this.#cache(existing, "file");
    await writeAtomic(this.#path, `${hex}\n`);
    return await this.#cache(hex, "file");
  }

  async #cache(hex: string, where: KeyPlace["in"]): Promise<StoreKey> {
    return this.#cached = await importKey(hex, { in: where, id: keyId(hex) });
  }

  #readFile(): string | undefined {
    return readPrivate(this.#path, 1024)?.text.trim();
  }

  #missingError(place: KeyPlace, problem: string): SbxError {
    const where = place.in === "keyring" ? "in the OS keyring" : this.#path;
    return new SbxError("credential.key_missing", `the key of the credential store (${where}) ${problem}`, {
      hint: place.in === "keyring"
        ? "unlock the keyring, and run sbx in the desktop session that created the store"
        : "restore the key file, or move the store away and add the credentials again: sbx credentials add",
    });
  }
}

function keyId(hex: string): string {
  return blake3(`sbx.credential.key.v1\0${hex}`).slice(0, 16);
}

async function importKey(hex: string, place: KeyPlace): Promise<StoreKey> {
  const bytes = Uint8Array.fromHex(hex);
  return {
    place,
    key: await crypto.subtle.importKey("raw", bytes, "AES-GCM", false, ["encrypt", "decrypt"]),
  };
}

// Access to the OS keyring through each system's own program. Keys go over pipes, never into arguments.

/** Longest wait for a keyring, in `ms`; it may ask its user to unlock it. */
const KEYRING_TIMEOUT_MS = timeLimit(30_000);
const SERVICE = "sbx";

export interface Keyring {
  /** `undefined` when the keyring has no value for this account, or does not answer */
  get(account: string): Promise<string | undefined>;
  set(account: string, value: string): Promise<void>;
}

/** Finds the keyring of this user's session. It is not tested here: the first use shows if it works. */
export function findKeyring(env: { get(name: string): string | undefined } = Deno.env): Keyring | undefined {
  if (Deno.build.os === "darwin") return SECURITY;
  // Without a session bus, secret-tool would start a private one.
  return env.get("DBUS_SESSION_BUS_ADDRESS") ? SECRET_TOOL : undefined;
}

const SECRET_TOOL: Keyring = {
  get: (account) => output("secret-tool", ["lookup", "service", SERVICE, "account", account]),
  async set(account, value) {
    const args = ["store", "--label=sbx credential store", "service", SERVICE, "account", account];
    await output("secret-tool", args, value);
  },
};

const SECURITY: Keyring = {
  get: (account) => output("security", ["find-generic-password", "-s", SERVICE, "-a", account, "-w"]),
  async set(account, value) {
    // -i reads commands from standard input, so that the key appears in no process list.
    await output("security", ["-i"], `add-generic-password -U -s ${SERVICE} -a ${account} -w ${value}\n`);
  },
};

/**
 * Output of a program without the final newline; `undefined` when it fails, is missing, or takes too long.
 */
async function output(program: string, args: string[], input?: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(KEYRING_TIMEOUT_MS);
  try {
    const child = new Deno.Command(program, {
      args,
      stdin: input === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "null",
      signal,
    }).spawn();
    if (input !== undefined) {
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(input));
      await writer.close();
    }
    const { success, stdout } = await child.output();
    const text = new TextDecoder().decode(stdout).trimEnd();
    return success && text !== "" ? text : undefined;
  } catch {
    return undefined;
  }
}

/** Text of a file, and a stamp that changes whenever the file does. */
interface PrivateText {
  text: string;
  stamp: string;
}

/**
 * Reads a file that only its user may read; `undefined` if absent. The checks apply to the opened file, even
 * if its name is replaced meanwhile.
 *
 * @throws {SbxError} `credential.store_insecure`: others may read or write the file, or another user owns it
 */
export function readPrivate(path: string, max: number): PrivateText | undefined {
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    if (error instanceof Deno.errors.PermissionDenied) {
      throw insecureError(path, "may not be read by this user", `ls -l ${path} shows whose it is`);
    }
    throw error;
  }
  using _ = file;
  const info = file.statSync();
  const refused = accessProblem(path, info, { keep: "secret" });
  if (refused) throw insecureError(path, refused.problem, refused.hint);
  if (info.size > max) throw insecureError(path, `is over ${max} bytes`, "move it away");
  const bytes = new Uint8Array(info.size);
  let at = 0;
  for (let read = file.readSync(bytes); read !== null && read > 0 && at < bytes.length;) {
    at += read;
    read = file.readSync(bytes.subarray(at));
  }
  return { text: new TextDecoder().decode(bytes.subarray(0, at)), stamp: stampOf(info) };
}

/** Stamp that changes whenever a file written by rename does; "" for a missing file. */
export function stampAt(path: string): string {
  try {
    return stampOf(Deno.statSync(path));
  } catch {
    return "";
  }
}

function stampOf({ ino, mtime, ctime, size, mode }: Deno.FileInfo): string {
  return `${ino} ${mtime?.getTime()} ${ctime?.getTime()} ${size} ${mode}`;
}

function insecureError(path: string, problem: string, hint: string): SbxError {
  return new SbxError("credential.store_insecure", `${path} ${problem}; sbx does not use it`, { hint });
}
