/**
 * Decoys in the traffic of a guest (docs/design/contracts/09-credentials.md §9, "Decoys"). Guests hold the
 * ref of a decoy, so that is searched for as secrets are, in all their codings; in names that a guest
 * resolves, pieces of it as well.
 */
import { Buffer } from "node:buffer";
import type { CredentialSubstitution, Event } from "../event/mod.ts";
import { fold } from "./fold.ts";
import { REASON } from "./reason.ts";
import { REF_PREFIX } from "./ref.ts";
import { textsOf } from "./scrub.ts";
import type { Vault } from "./vault.ts";

/**
 * Fewest characters of a decoy in a name of DNS that are a piece of it; sixteen
 * come about by chance in no name.
 */
export const PIECE_MIN = 16;
/** Characters of a secret that pieces are made of. */
const PIECES_OF_MAX = 256;
/** The head of every JSON Web Token of one kind is the same. */
export const COMMON_HEAD = /^eyJ[^.]*\./;

/** Requests of MCP servers, which a guest answers. */
const ANSWERED: ReadonlySet<string> = new Set(["elicitation/create", "sampling/createMessage"]);

/** Pieces of the decoys of a vault, by their text. */
interface Pieces {
  /** the finder of the time: it changes with the known secrets */
  of: object;
  found: ReadonlyMap<string, { ref: string; coding: string }>;
  lengths: readonly number[];
}

const cache = new WeakMap<Vault, Pieces>();

/**
 * The use of a decoy in an event whose bytes pass no filter: a name that is
 * resolved or connected to, a method, a command over SSH, an MCP request.
 *
 * @returns the denial; `undefined` where there is none
 */
export function decoyIn(vault: Vault, { dns, http, mcp }: Event): CredentialSubstitution | undefined {
  if (!vault.hasDecoys) return undefined;
  if (dns) return decoyInName(vault, dns.request.qname);
  if (http) {
    const { host, method, ssh } = http.request;
    return decoyInName(vault, host) ?? decoyPieceIn(vault, method, "method") ??
      (ssh && decoyInText(vault, ssh.command, "command"));
  }
  if (!mcp) return undefined;
  const { arguments: args, ...names } = mcp.request;
  return decoyInText(vault, textsOf(args).join("\n"), "arguments") ??
    decoyInText(vault, textsOf(names).join("\n"), "request") ??
    (ANSWERED.has(mcp.request.method) && mcp.response
      ? decoyInText(vault, textsOf(mcp.response.content).join("\n"), "answer")
      : undefined);
}

function decoyInText(vault: Vault, text: string, place: string): CredentialSubstitution | undefined {
  for (const { ref, coding } of vault.finder.find(text)) {
    if (ref !== undefined && vault.isDecoy(ref)) return denialOf(vault, ref, placeIn(place, coding));
  }
}

function decoyInName(vault: Vault, name: string): CredentialSubstitution | undefined {
  return decoyPieceIn(vault, name, "name") ?? decoyInText(vault, name, "name");
}

function decoyPieceIn(vault: Vault, name: string, place: string): CredentialSubstitution | undefined {
  const { found, lengths } = piecesOf(vault);
  // Labels are the channel: a piece may go over their ends.
  const text = normalOf(name);
  for (const length of lengths) {
    for (let at = 0; at + length <= text.length; at++) {
      const piece = found.get(text.slice(at, at + length));
      if (piece) return denialOf(vault, piece.ref, placeIn(place, piece.coding));
    }
  }
}

function denialOf(vault: Vault, ref: string, location: string): CredentialSubstitution {
  return {
    provider: vault.get(ref)?.entry.provider ?? "unknown",
    credential_ref: ref,
    location,
    outcome: "denied",
    reason: REASON.decoy,
  };
}

/** A place with the coding of a match: `body, in base64`. */
export function placeIn(place: string, coding: string | undefined): string {
  return coding === undefined ? place : `${place}, in ${coding}`;
}

function piecesOf(vault: Vault): Pieces {
  const before = cache.get(vault);
  if (before?.of === vault.finder) return before;
  const found = new Map<string, { ref: string; coding: string }>();
  for (const [ref, text] of vault.decoyTexts()) {
    const body = text.replace(COMMON_HEAD, "").slice(0, PIECES_OF_MAX);
    for (const [coding, form, length] of codingsOf(body)) {
      const normal = normalOf(form);
      for (let at = 0; at + length <= normal.length; at++) {
        const piece = normal.slice(at, at + length);
        // The beginning of all refs is in no secret, and says nothing.
        if (!REF_PREFIX.replaceAll(":", "").includes(piece)) found.set(piece, { ref, coding });
      }
    }
  }
  const lengths = [...new Set([...found.keys()].map(({ length }) => length))];
  const pieces = { of: vault.finder, found, lengths };
  cache.set(vault, pieces);
  return pieces;
}

/**
 * Codings of a text with the length of its pieces, each of at least
 * {@linkcode PIECE_MIN} characters of the text.
 */
function* codingsOf(text: string): Generator<[coding: string, form: string, length: number]> {
  yield ["a piece", text, PIECE_MIN];
  const bytes = (before: number) => Buffer.from("\0".repeat(before) + text, "latin1");
  yield ["a piece of hex", bytes(0).toString("hex"), PIECE_MIN * 2];
  for (const before of [0, 1, 2]) {
    yield ["a piece of base64", bytes(before).toString("base64").slice(4), Math.ceil(PIECE_MIN * 8 / 6)];
  }
  for (const before of [0, 1, 2, 3, 4]) {
    yield ["a piece of base32", base32(bytes(before)).slice(8), Math.ceil(PIECE_MIN * 8 / 5)];
  }
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** RFC 4648 without padding, in lower case as names are. */
function base32(bytes: Uint8Array): string {
  let text = "";
  let rest = 0;
  let bits = 0;
  for (const byte of bytes) {
    rest = (rest << 8 | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += BASE32[rest >> (bits - 5) & 31];
  }
  return bits > 0 ? text + BASE32[rest << (5 - bits) & 31] : text;
}

/** Lower case without separators and escapes: a name keeps neither the case nor the dots of its bytes. */
function normalOf(text: string): string {
  const { codes, length } = fold(text.replace(/[-_+/]/g, ""));
  return Buffer.from(codes.subarray(0, length)).toString("latin1");
}
