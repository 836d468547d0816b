/**
 * Bodies signed piece by piece (`aws-chunked`): the guest's chain of signatures is
 * checked and replaced by the host's.
 */
import type { ChunkSignatures, CredentialDenied, Header } from "../../network/interface/mod.ts";
import { REASON } from "../reason.ts";
import { EMPTY_HASH, type Scope, scopeText, sha256, signText } from "./canonical.ts";
import { isSameText } from "./placeholder.ts";

/** Form of a body in chunks. */
interface Kind {
  /** each chunk has a signature */
  isSigned: boolean;
  hasTrailers: boolean;
}

/** Forms by their value of `x-amz-content-sha256`. */
const KINDS: Readonly<Record<string, Kind>> = {
  "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": { isSigned: true, hasTrailers: false },
  "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": { isSigned: true, hasTrailers: true },
  "STREAMING-UNSIGNED-PAYLOAD-TRAILER": { isSigned: false, hasTrailers: true },
};
/** Trailers of S3: checksums. */
const TRAILER = /^x-amz-checksum-[a-z0-9]{1,16}$/;
/** Value of `x-amz-decoded-content-length`. */
const LENGTH = /^\d{1,15}$/;

/** Reasons of a denial, by the rule of the wire that a body breaks. */
const REASONS = { chunks: REASON.badChunks, signature: REASON.badChunk, room: REASON.longChunk };

/** Chunks of a body, as its head announces them. */
export interface ChunkPlan extends Kind {
  /** value of `x-amz-content-sha256` */
  payload: string;
  /** length of the content without the lines between its pieces, in `bytes` */
  length?: number;
  /** names in lower case */
  trailers: readonly string[];
}

/** True for an `x-amz-content-sha256` that stands for chunks. */
export function isChunkedPayload(payload: string | undefined): payload is string {
  return payload !== undefined && Object.hasOwn(KINDS, payload);
}

/** True for a body that servers may read as chunks. */
export function claimsChunks(headers: readonly Header[]): boolean {
  return headers.some(([name, value]) => name === "content-encoding" && /aws-chunked/i.test(value));
}

/** Reads the announced chunks of a body; `undefined` for a head that servers may read differently. */
export function chunkPlanOf(payload: string, headers: readonly Header[]): ChunkPlan | undefined {
  const { isSigned, hasTrailers } = KINDS[payload];
  const valuesOf = (wanted: string) => headers.filter(([name]) => name === wanted).map(([, value]) => value);
  const [length, ...more] = valuesOf("x-amz-decoded-content-length").map((value) => value.trim());
  if (more.length > 0 || length !== undefined && !LENGTH.test(length)) return undefined;
  const trailers = valuesOf("x-amz-trailer").join(",").toLowerCase().split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  if (!hasTrailers && trailers.length > 0) return undefined;
  if (new Set(trailers).size < trailers.length || !trailers.every((name) => TRAILER.test(name))) {
    return undefined;
  }
  return {
    payload,
    isSigned,
    hasTrailers,
    trailers,
    ...(length !== undefined && { length: Number(length) }),
  };
}

/** A chain of signatures: each covers the one before it, and the first covers the request's. */
class Chain {
  readonly #key: Uint8Array;
  readonly #scope: Scope;
  #last: string;

  constructor(key: Uint8Array, scope: Scope, seed: string) {
    this.#key = key;
    this.#scope = scope;
    this.#last = seed;
  }

  /** Signature of the next chunk. @param hash SHA-256 of its content */
  next(hash: string): string {
    return this.#add("PAYLOAD", [EMPTY_HASH, hash]);
  }

  /** Signature of the trailers, which ends the chain. */
  trailers(text: string): string {
    return this.#add("TRAILER", [sha256(text)]);
  }

  #add(what: string, hashes: readonly string[]): string {
    const lines = [
      `AWS4-HMAC-SHA256-${what}`,
      this.#scope.date,
      scopeText(this.#scope),
      this.#last,
      ...hashes,
    ];
    return this.#last = signText(this.#key, lines.join("\n"));
  }
}

/** Start of a chain: whose key signs it, and the signature of the request. */
export interface ChainStart {
  /** signing key of the day */
  key: Uint8Array;
  /** signature of the request */
  seed: string;
}

/** Signatures of one body's chunks: checks the guest's, and makes the host's, which take their place. */
export class AwsChunks implements ChunkSignatures {
  readonly #theirs: Chain;
  readonly #ours: Chain;
  readonly #plan: ChunkPlan;
  readonly #deny: (reason: string) => CredentialDenied;

  constructor(
    plan: ChunkPlan,
    scope: Scope,
    starts: { theirs: ChainStart; ours: ChainStart },
    deny: (reason: string) => CredentialDenied,
  ) {
    this.#plan = plan;
    this.#theirs = new Chain(starts.theirs.key, scope, starts.theirs.seed);
    this.#ours = new Chain(starts.ours.key, scope, starts.ours.seed);
    this.#deny = deny;
  }

  get isSigned(): boolean {
    return this.#plan.isSigned;
  }

  get hasTrailers(): boolean {
    return this.#plan.hasTrailers;
  }

  get length(): number | undefined {
    return this.#plan.length;
  }

  get trailers(): readonly string[] {
    return this.#plan.trailers;
  }

  isNext(hash: string, signature: string): boolean {
    return isSameText(this.#theirs.next(hash), signature);
  }

  sign(hash: string): string {
    return this.#ours.next(hash);
  }

  isOfTrailers(text: string, signature: string): boolean {
    return isSameText(this.#theirs.trailers(text), signature);
  }

  signTrailers(text: string): string {
    return this.#ours.trailers(text);
  }

  denied(reason: "chunks" | "signature" | "room"): CredentialDenied {
    return this.#deny(REASONS[reason]);
  }
}
