/**
 * Decoys in streams that are not replaced in, only ended: SSH, databases, other protocols, the packed parts
 * of bodies (docs/design/contracts/09-credentials.md §9, "Decoys").
 */
import { Buffer } from "node:buffer";
import { plainHost } from "../base/address/mod.ts";
import type { DecoySearch } from "../network/interface/mod.ts";
import { latin1 } from "./body.ts";
import { COMMON_HEAD, placeIn } from "./decoy.ts";
import { Finder } from "./finder.ts";
import { decoyUsed } from "./grant.ts";
import { SECRET_MAX, SECRET_MIN } from "./form.ts";
import { PART_MIN } from "./message.ts";
import { REF_PREFIX } from "./ref.ts";
import type { Vault } from "./vault.ts";

/** Most characters that are remembered, and most `bytes` held back. */
const MEMORY_MAX = 4 * SECRET_MAX;
const EMPTY = new Uint8Array(0);

/** Finders of the decoys of a vault, by the finder that it has at the time. */
const cache = new WeakMap<Finder, Finder | undefined>();

/**
 * Finder of decoys alone. Of refs it knows the digest, and of JSON Web Tokens what their head does not
 * share: a person may type `credential`, and its echo must not wait.
 */
function decoyFinder(vault: Vault): Finder | undefined {
  const { finder } = vault;
  if (cache.has(finder)) return cache.get(finder);
  const texts = [...vault.decoyTexts()]
    .filter(([, text]) => !text.startsWith(REF_PREFIX))
    .map(([ref, text]): [string, string] => {
      const own = text.replace(COMMON_HEAD, "");
      return [ref, own.length < SECRET_MIN ? text : own];
    });
  const found = texts.length > 0 ? new Finder(texts, { shapes: false }) : undefined;
  cache.set(finder, found);
  return found;
}

/** Search of one stream. */
export class DecoyStream implements DecoySearch {
  readonly #vault: Vault;
  readonly #host: string;
  readonly #location: string;
  /** passed on already, and possibly the beginning of a decoy */
  #passed = "";
  #held: Uint8Array = EMPTY;

  constructor(vault: Vault, host: string, location: string) {
    this.#vault = vault;
    this.#host = plainHost(host);
    this.#location = location;
  }

  push(bytes: Uint8Array): Uint8Array {
    const finder = decoyFinder(this.#vault);
    if (!finder) return bytes;
    const all = this.#held.length === 0 ? bytes : Buffer.concat([this.#held, bytes]);
    const before = this.#passed.length;
    const text = this.#passed + latin1(all);
    const { matches: [match], begun } = finder.scan(text);
    if (match) {
      throw decoyUsed(this.#vault, match.ref!, this.#host, placeIn(this.#location, match.coding));
    }
    const starts = begun.map(({ start }) => start);
    const held = begun.filter(({ depth }) => depth >= PART_MIN).map(({ start }) => start);
    const least = text.length - MEMORY_MAX;
    const cut = Math.max(before, least, Math.min(text.length, ...held));
    this.#passed = text.slice(Math.max(0, least, Math.min(cut, ...starts)), cut);
    // A copy: held bytes outlive the caller's buffer.
    this.#held = cut === text.length ? EMPTY : all.slice(cut - before);
    return all.subarray(0, cut - before);
  }

  end(): Uint8Array {
    const held = this.#held;
    this.#held = EMPTY;
    return held;
  }
}
