/** Bodies that are signed piece by piece (`aws-chunked`): the chain of the guest's signatures, and the host's. */
import type { ChunkSignatures, CredentialDenied, Header } from "../../network/interface/mod.ts";
import { REASON } from "../reason.ts";
import { EMPTY_HASH, type Scope, scopeText, sha256, signText } from "./canonical.ts";
import { isSameText } from "./placeholder.ts";

/** Form of a body in chunks, by its value of `x-amz-content-sha256`. */
interface Kind {
  /** each chunk has a signature */
  isSigned: boolean;
  hasTrailers: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": { isSigned: true, hasTrailers: false },
  "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER": { isSigned: true, hasTrailers: true },
  "STREAMING-UNSIGNED-PAYLOAD-TRAILER": { isSigned: false, hasTrailers: true },
};
/** Trailers that S3 knows: checksums. */
const TRAILER = /^x-amz-checksum-[a-z0-9]{1,16}$/;
const LENGTH = /^\d{1,15}$/;

const REASONS = { chunks: REASON.badChunks, signature: REASON.badChunk, room: REASON.longChunk };

/** The chunks of a body, as its head announces them. */
export interface ChunkPlan extends Kind {
  payload: string;
  /** of the body without the lines between its pieces, in `bytes` */
  length?: number;
  /** announced, lower case */
  trailers: readonly string[];
}

/** True for a payload that is signed as chunks. */
export function isChunkedPayload(payload: string | undefined): payload is string {
  return payload !== undefined && Object.hasOwn(KINDS, payload);
}

/** True for a body that servers may read as chunks. */
export function claimsChunks(headers: readonly Header[]): boolean {
  return headers.some(([name, value]) => name === "content-encoding" && /aws-chunked/i.test(value));
}

/** Reads how a body is cut; `undefined` where servers may differ on it. */
export function chunkPlanOf(payload: string, headers: readonly Header[]): ChunkPlan | undefined {
  const { isSigned, hasTrailers } = KINDS[payload];
  const valuesOf = (wanted: string) => headers.filter(([name]) => name === wanted).map(([, value]) => value);
  const lengths = valuesOf("x-amz-decoded-content-length");
  if (lengths.length > 1 || lengths.length === 1 && !LENGTH.test(lengths[0].trim())) return undefined;
  const trailers = valuesOf("x-amz-trailer").join(",").toLowerCase().split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  const isFit = new Set(trailers).size === trailers.length && trailers.every((name) => TRAILER.test(name)) &&
    (hasTrailers || trailers.length === 0);
  if (!isFit) return undefined;
  return {
    payload,
    isSigned,
    hasTrailers,
    trailers,
    ...(lengths.length === 1 && { length: Number(lengths[0].trim()) }),
  };
}

/** A chain of signatures: each covers the one before it, and the first the request's. */
class Chain {
  readonly #key: Uint8Array;
  readonly #scope: Scope;
  #last: string;

  constructor(key: Uint8Array, scope: Scope, seed: string) {
    this.#key = key;
    this.#scope = scope;
    this.#last = seed;
  }

  next(hash: string): string {
    return this.#add("PAYLOAD", [EMPTY_HASH, hash]);
  }

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

/** Keys of a day, and signatures of the request, of the guest and of the host. */
export interface ChainStart {
  key: Uint8Array;
  seed: string;
}

/** Signatures of the chunks of one body: the guest's are checked, and the host's take their places. */
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
