/**
 * Filters for the messages of WebSockets (docs/design/contracts/09-credentials.md §9): no secret passes, in
 * one message or cut into several.
 */
import { Buffer } from "node:buffer";
import type { CredentialSubstitution } from "../event/mod.ts";
import type { MessageFilter, MessagePlace } from "../network/interface/mod.ts";
import { latin1, placeholderOf, UniqueRows } from "./body.ts";
import { Finder, type Scan, type SecretMatch } from "./finder.ts";
import { SECRET_MAX } from "./form.ts";
import { placeIn } from "./decoy.ts";
import { decoyUsed, REASON } from "./grant.ts";
import { plainHost } from "../base/address/mod.ts";
import type { Vault } from "./vault.ts";

/** Most `bytes` held back within a message, and most characters remembered between messages. */
const MEMORY_MAX = 4 * SECRET_MAX;
/** Shortest beginning of a known secret, in characters, that may not end a message. */
export const PART_MIN = 8;
const EMPTY = new Uint8Array(0);

/** Finders of {@linkcode secretsFinder}, by the finder that a vault has at the time. */
const cache = new WeakMap<Finder, Finder>();

/** Finder of a vault's secrets, without refs and shapes. */
function secretsFinder(vault: Vault): Finder {
  let secrets = cache.get(vault.finder);
  if (!secrets) cache.set(vault.finder, secrets = new Finder(vault.secrets(), { shapes: false }));
  return secrets;
}

/** Start of a beginning of a known secret that must not end a message; the length of the text without one. */
function startOfPart(text: string, { begun }: Scan): number {
  const starts = begun.filter(({ depth }) => depth >= PART_MIN).map(({ start }) => start);
  return Math.min(text.length, ...starts);
}

/** Filter for one direction of a WebSocket, with the same replacements as in bodies. */
export function messageFilter(vault: Vault, place: MessagePlace): MessageFilter {
  return place.direction === "request"
    ? new RequestMessages(vault, place)
    : new ResponseMessages(vault, place);
}

/** Replacer of the matches in one direction. */
abstract class Messages implements MessageFilter {
  readonly vault: Vault;
  readonly #rows = new UniqueRows();
  readonly place: { host: string; location: string };
  readonly keepsLength: boolean;
  /** end of the text so far, unchanged: a possible beginning of a match, after one character before it */
  #tail = "";
  #held: Uint8Array = EMPTY;

  constructor(vault: Vault, { host, keepsLength }: MessagePlace) {
    this.vault = vault;
    this.keepsLength = keepsLength === true;
    this.place = { host: plainHost(host), location: "message" };
  }

  get substitutions(): readonly CredentialSubstitution[] {
    return this.#rows.rows;
  }

  push(piece: Uint8Array, isLast: boolean): Uint8Array {
    if (piece.length === 0 && !isLast) return EMPTY;
    const bytes = this.#held.length ? Buffer.concat([this.#held, piece]) : piece;
    const base = this.#tail.length;
    const text = this.#tail + latin1(bytes);
    const scan = this.finder.scan(text);
    const { matches: all, partial } = scan;
    const matches = all.filter(({ end }) => end > base);
    let cut = isLast ? text.length : Math.max(base, partial);
    // Start of the text to scan again with the next piece.
    let begun = partial;
    for (const { start, end } of matches.toReversed()) {
      if (start >= cut || cut >= end) continue;
      cut = Math.max(base, start);
      begun = Math.min(begun, start);
    }
    if (text.length - cut > MEMORY_MAX) cut = text.length;
    const pieces: Uint8Array[] = [];
    let at = base;
    for (const match of matches) {
      if (match.end > cut) break;
      const start = Math.max(match.start, at);
      const replacement = this.replace(match);
      // The beginning of a match is gone already: its rest becomes no ref.
      const written = match.start < base ? placeholderOf(match.end - start) : replacement;
      if (replacement === undefined || written === undefined) continue;
      pieces.push(bytes.subarray(at - base, start - base), Buffer.from(written, "latin1"));
      at = match.end;
    }
    const partOfSecret = isLast ? startOfPart(text, scan) : text.length;
    const part = Math.min(Math.max(at, partOfSecret), cut);
    pieces.push(bytes.subarray(at - base, part - base));
    if (part < cut) pieces.push(this.#withholdPart(cut - part));
    this.#held = cut === text.length ? EMPTY : bytes.slice(cut - base);
    // A match that is complete at the end needs no rest, unless it is a part of a longer secret.
    const isComplete = isLast && matches.at(-1)?.end === text.length;
    const from = isComplete ? partOfSecret : Math.min(begun, partOfSecret);
    this.#tail = text.slice(Math.max(0, Math.min(cut, from) - 1, cut - MEMORY_MAX), cut);
    return pieces.length === 1 ? pieces[0] : Buffer.concat(pieces);
  }

  #withholdPart(length: number): Uint8Array {
    this.record({ provider: "unknown", credential_ref: "unknown", outcome: "denied", reason: REASON.inPart });
    return Buffer.from(placeholderOf(length), "latin1");
  }

  protected record(row: Omit<CredentialSubstitution, "host" | "location">): void {
    this.#rows.add({ ...row, ...this.place });
  }

  protected abstract get finder(): Finder;

  /** Replacement for a match, one byte a character; `undefined` leaves it. */
  protected abstract replace(match: SecretMatch): string | undefined;
}

/** Messages to an upstream: refs and secrets are withheld from them, as from request bodies. */
class RequestMessages extends Messages {
  protected get finder(): Finder {
    return this.vault.finder;
  }

  protected replace({ kind, text, ref: found, start, end, coding }: SecretMatch): string {
    const provider = kind === "token" ? this.vault.shaped(text) : this.vault.get(found!)?.entry.provider;
    const credential_ref = found ?? this.vault.refOf(provider!, text);
    const { host, location } = this.place;
    // Withheld alone, it would leave the connection open for the next try.
    if (this.vault.isDecoy(credential_ref)) {
      throw decoyUsed(this.vault, credential_ref, host, placeIn(location, coding));
    }
    const reason = REASON.inMessage;
    this.record({ provider: provider ?? "unknown", credential_ref, outcome: "denied", reason });
    return placeholderOf(end - start);
  }
}

/** Messages to a guest: it gets refs in place of the secrets that are known. */
class ResponseMessages extends Messages {
  protected get finder(): Finder {
    return secretsFinder(this.vault);
  }

  protected replace({ ref, start, end }: SecretMatch): string | undefined {
    const { provider } = this.vault.get(ref!)!.entry;
    this.record({ provider, credential_ref: ref!, outcome: "brokered" });
    return this.keepsLength ? placeholderOf(end - start) : ref;
  }
}
