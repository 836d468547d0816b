/** The network's ports: interfaces that other parts of sbx implement for it. */
import { SbxError } from "../../base/error/mod.ts";
import type { CredentialSubstitution, Event, HttpAws, ModelEvent } from "../../event/mod.ts";
import type { Header } from "../message/header.ts";
import type { Bill, CallUse, LaterUse } from "../../policy/budget/mod.ts";
import type { Draft } from "../../policy/mod.ts";

// Credential port: the network asks it to keep secrets on the host (docs/design/contracts/09-credentials.md
// §9). Implemented by lib/credential.

/** Destination of a request. */
export interface Destination {
  /** `http` or `https` */
  scheme: string;
  /** lower case, without port */
  host: string;
  port: number;
}

/** Header fields after substitutions. */
export interface Substituted {
  headers: Header[];
  substitutions: CredentialSubstitution[];
}

/** Header fields with secrets in them: only the upstream may see them. */
export interface Injected extends Substituted {
  /** aborts when an injected credential is revoked: the exchange has to end */
  released?: AbortSignal;
}

/** A request as it is signed: header names in lower case, without `host`. */
export interface SignedRequest extends Destination {
  method: string;
  /** path and query */
  target: string;
  headers: Header[];
  /** of the body, in `bytes` */
  length?: number;
}

/**
 * A signature that a guest made with the placeholder of a key: the request is sent with one of the host's.
 */
export interface RequestSignature {
  /** as the signature says; absent for one that is refused */
  readonly scope?: { service: string; region: string };
  /** the signature covers a body that has to be held whole */
  readonly needsBody: boolean;
  /**
   * Checks the guest's signature, before {@linkcode RequestSignature.sign}.
   * @param body its beginning, or all of it
   */
  check(body: Uint8Array, isWhole: boolean): void;
  /** Lets `sign` refuse a call whose answer would hold keys. */
  requireHarmless(aws: HttpAws | undefined): void;
  /**
   * Signs the request as it is sent, and puts secrets in place of refs.
   *
   * @param body the whole body; absent where it is not held
   * @returns the target as `:path`, then the fields
   * @throws {CredentialDenied} no part of the request may be sent
   */
  sign(request: SignedRequest, body: Uint8Array | undefined): Injected;
  /** Signatures within the body, for a body in chunks; of use after {@linkcode RequestSignature.sign}. */
  readonly chunks?: () => ChunkSignatures;
}

/**
 * Signatures between the pieces of a body (`aws-chunked`): the guest's are checked,
 * and the host's take their places.
 */
export interface ChunkSignatures {
  /** each chunk has one */
  readonly isSigned: boolean;
  /** trailers follow the last chunk */
  readonly hasTrailers: boolean;
  /** `bytes` of all chunks, where the head says it */
  readonly length?: number;
  /** names of the trailers that the head announces */
  readonly trailers: readonly string[];
  /** True for the guest's signature of its next chunk. @param hash SHA-256 */
  isNext(hash: string, signature: string): boolean;
  /** Signs the next chunk as it is sent. */
  sign(hash: string): string;
  /** True for the guest's signature of its trailers. @param text lines */
  isOfTrailers(text: string, signature: string): boolean;
  signTrailers(text: string): string;
  denied(reason: "chunks" | "signature" | "room"): CredentialDenied;
}

/** A body that the broker may change. */
export interface BodyPlace extends Destination {
  /** `request`: on its way to the upstream; `response`: on its way to the guest */
  direction: "request" | "response";
  /** path of the request as a lenient server reads it, without its query */
  path: string;
  /** content type of the request; that of a response is unknown when the filter is made */
  content_type?: string;
  /** of a response */
  status?: number;
}

/**
 * Changes one stream of bytes: a body, or the messages of a WebSocket. Holds bytes back while they may be
 * part of a secret or a ref. Its search terms are fetched with each chunk, so that a secret first used while
 * the stream is open is found too.
 */
export interface BodyFilter {
  /**
   * Returns the bytes that may be sent so far.
   * @throws {SbxError} `credential.denied`: nothing more may be sent
   */
  push(chunk: Uint8Array): Uint8Array;
  /**
   * Returns the bytes held back, at the end of the body. Another message may follow.
   * @throws {SbxError} `credential.denied`
   */
  end(): Uint8Array;
  /** substitutions so far; complete after `end` */
  readonly substitutions: readonly CredentialSubstitution[];
  /** its bytes are searched now: they have to be whole and without an encoding */
  readonly searching: boolean;
  /** replacements have the length of the original */
  readonly keepsLength: boolean;
  /** as in {@linkcode Injected} */
  readonly released?: AbortSignal;
}

/** A direction of a WebSocket, or of a call of gRPC. */
export interface MessagePlace extends Destination {
  /** `request`: on its way to the upstream; `response`: on its way to the guest */
  direction: "request" | "response";
  /** messages say their length in front: a replacement has the length of the original */
  keepsLength?: true;
}

/**
 * Changes the messages of one direction of a WebSocket. Finds secrets that are
 * cut into frames or messages, too.
 */
export interface MessageFilter {
  /**
   * Returns the bytes that may be sent so far; nothing is held back beyond the end of a message.
   *
   * @param isLast true for the end of a message
   * @throws {SbxError} `credential.denied`: nothing more may be sent
   */
  push(piece: Uint8Array, isLast: boolean): Uint8Array;
  /** substitutions so far */
  readonly substitutions: readonly CredentialSubstitution[];
}

/** Kinds of databases that the host logs in to; also the ids of their providers. */
export type DatabaseSystem = "postgres" | "mysql" | "redis";

/** An account at a database that the guest may use; the password stays in the broker. */
export interface DatabaseAccount {
  system: DatabaseSystem;
  /** of the password */
  ref: string;
  /** the only user that it is for */
  user?: string;
  /** the only database that it is for */
  name?: string;
  /** the server is reached without TLS, on loopback */
  tls?: "off";
  /** the server may ask for an MD5 hash of the password */
  md5?: true;
}

/** A login at a database: only the server may see the password. */
export interface DatabaseLogin {
  secret: string;
  /** aborts when the credential is revoked: the connection has to end */
  released: AbortSignal;
  substitution: CredentialSubstitution;
}

/** An account at an SSH server that the guest may use; its key stays in the broker. */
export interface SshAccount {
  /** of the key */
  ref: string;
  user: string;
  /** as in `authorized_keys` */
  publicKey: string;
  /** the only keys that the server may have, as in `authorized_keys` */
  hostKeys: readonly string[];
}

/** A login at an SSH server. */
export interface SshLogin {
  /**
   * Signs for the server.
   *
   * @param algorithm such as `rsa-sha2-512`; of another key than RSA its type
   * @throws {SbxError} `ssh.agent`, `credential.denied`
   */
  sign(data: Uint8Array, algorithm: string): Promise<Uint8Array>;
  /** aborts when the credential is revoked: the connection has to end */
  released: AbortSignal;
  substitution: CredentialSubstitution;
}

/**
 * Exchanges secrets for refs and back. Header names are lower case; the path and query of a request come as a
 * header field named `:path`, so that secrets and refs in a query are found too.
 */
export interface CredentialPort {
  /** Replaces the secrets that a guest sent with refs. A field whose name holds a secret is dropped. */
  capture(host: string, headers: Header[]): Substituted;
  /**
   * Replaces refs with secrets, for hosts that the credential's provider owns.
   *
   * @throws {SbxError} `credential.denied`, best as {@linkcode CredentialDenied}: an
   * unknown ref, or one not allowed there
   */
  inject(to: Destination, headers: Header[]): Injected;
  /** The signature of a request that stands for a stored key; `undefined` for any other request. */
  signature?(request: SignedRequest): RequestSignature | undefined;
  /**
   * Drops the trailers of a request that hold a ref or a secret: they come too late to refuse the request.
   */
  trailers(to: Destination, trailers: readonly Header[]): Substituted;
  /**
   * True when answers from there are or may be searched: they are asked for whole and without an encoding.
   */
  guards(place: Omit<BodyPlace, "direction">): boolean;
  /**
   * Replaces the secrets in head or trailers of an answer with refs, for hosts that ever got one. A field
   * whose name holds a secret is dropped.
   */
  answer(host: string, headers: Header[]): Substituted;
  /** Accounts at the database of this host and port that the guest may use, the latest first. */
  databases?(host: string, port: number): DatabaseAccount[];
  /** Gives the password of an account for a login. @throws {CredentialDenied} e.g. revoked */
  login?(ref: string, host: string, port: number): DatabaseLogin;
  /** Accounts at the SSH server of this host and port that the guest may use, the latest first. */
  sshAccounts?(host: string, port: number): SshAccount[];
  /** Lets the key of an account be used for a login. @throws {CredentialDenied} e.g. revoked */
  sshLogin?(ref: string, host: string, port: number): SshLogin;
  /** Removes secrets from the fields of a message that is about to be recorded, names included. */
  scrubFields(headers: readonly Header[]): readonly Header[];
  /**
   * Removes secrets from text that is about to be recorded.
   *
   * @param isCut more text followed: the beginning of a secret at the end is removed too
   */
  scrub(text: string, isCut?: boolean): string;
  /** Filter for one body without content encoding; `undefined` when no part of it can matter. */
  bodies(place: BodyPlace): BodyFilter | undefined;
  /**
   * True where packed parts of bodies are searched for decoys, beside bodies that say they are encoded.
   */
  readonly seeksDecoys?: boolean;
  /** Search of bytes that a guest sends to a host, where no filter replaces anything. */
  decoys?(host: string, location: string): DecoySearch;
  /** Filter for the messages of one direction of a WebSocket. */
  messages(place: MessagePlace): MessageFilter;
  /** True where the host may answer itself: the whole body is needed before anything is sent. */
  answers?(place: Pick<BodyPlace, "host" | "path">): boolean;
  /**
   * Renews the login whose token a request carries; answers a request that would renew it.
   *
   * @throws {SbxError} `login.failed`, `login.over`
   */
  attend?(request: AttendedRequest): Promise<HostAnswer | undefined>;
  /** True where the host answers in place of the metadata server of a cloud. @param cloud absent: of any */
  servesMetadata?(cloud?: "gcp" | "azure"): boolean;
  /** An upstream took the secrets of these substitutions for no longer valid. */
  refused?(substitutions: readonly CredentialSubstitution[]): void;
}

/** Search of a stream for decoys, which ends at the first one. */
export interface DecoySearch {
  /**
   * Takes the next bytes.
   *
   * @returns bytes to pass on: the beginning of a decoy is held back
   * @throws {CredentialDenied} with the decoy's use
   */
  push(bytes: Uint8Array): Uint8Array;
  /** The bytes held back, at the end of the stream. */
  end(): Uint8Array;
}

/** A request that is about to be sent, with refs in place of secrets. */
export interface AttendedRequest extends Destination {
  method: string;
  /** as a lenient server reads it, without its query */
  path: string;
  headers: readonly Header[];
  /** absent: not whole */
  body?: Uint8Array;
}

/** An answer of the host in place of the upstream's. */
export interface HostAnswer {
  status: number;
  /** default: of JSON */
  headers?: Header[];
  body: Uint8Array;
  substitutions: readonly CredentialSubstitution[];
}

/** A denied ref, with the substitutions to record. */
export class CredentialDenied extends SbxError {
  constructor(message: string, readonly substitutions: readonly CredentialSubstitution[], hint?: string) {
    super("credential.denied", message, { hint });
  }
}

// Model port: the network asks it to recognize and read model calls (docs/design/contracts/05-policy.md §5).
// Implemented by lib/network/model.

/** Head of a request, with refs in place of secrets. */
export interface ModelRequest {
  method: string;
  scheme: string;
  host: string;
  port: number;
  /** as a lenient server reads it */
  path: string;
  query: string;
  headers: Header[];
}

/**
 * Puts refs in place of secrets.
 * @param isCut more text followed: the beginning of a secret at the end is removed too
 */
export type Scrub = (text: string, isCut?: boolean) => string;

/** A request that is a model call, or may be one. */
export interface ModelDraft {
  draft: Draft;
  /** true when only an unreadable body makes it a model call: without rules on models it does not count */
  isGuess: boolean;
  /**
   * Finds why the call cannot be read whole and unambiguously, as a clause without secrets; `undefined` when
   * it can. Where rules read models, such a call is refused.
   */
  fault(): string | undefined;
  /** Sums up the most that the call can use. */
  bill(): Bill;
  /**
   * Body that asks the provider to count the tokens of its stream; `undefined`
   * where it does, or cannot be asked.
   */
  counted(): Uint8Array | undefined;
}

/**
 * Reads one model call from the bytes that pass. An error ends the reading, never the stream. The upstream is
 * asked for an unencoded response.
 */
export interface ModelCall {
  /** most `bytes` of the request's body that it needs before the decision */
  readonly bodyMax: number;
  /**
   * Drafts the event to decide on before the request is sent; `undefined` when it is not a model call.
   *
   * @param body the request's body without encoding, with refs and secrets as the guest sent them: text for
   * the draft goes through `scrub` first
   * @param missing why `body` is not the whole body, as a clause; absent when it is
   */
  request(
    body: Uint8Array,
    missing: string | undefined,
    scrub: Scrub,
  ): ModelDraft | undefined;
  /**
   * Body for a rewritten event; `undefined` when no field of the body changed.
   *
   * @throws {Error} for a change that cannot be sent
   */
  rewrite?(event: Event, body: Uint8Array): Uint8Array | undefined;
  /** Reads the head of the response. */
  head(status: number, headers: Header[]): void;
  /** Reads the next bytes of the response; they are overwritten after the call. */
  chunk(bytes: Uint8Array): void;
  /** The response read so far. @param error reason of an early end */
  end(error?: string): ModelEvent["response"] | undefined;
  /**
   * What budgets need of the response; after {@linkcode ModelCall.end}.
   * @param complete it came to its end
   */
  use(complete: boolean): CallUse;
}

/** Reads the usage of an answer that the client fetches later. */
export interface LaterAnswer {
  /** host and id, as in `CallUse.later` */
  readonly key: string;
  head(status: number, headers: Header[]): void;
  chunk(bytes: Uint8Array): void;
  /** @returns `undefined` for an answer that is not counted yet */
  end(): LaterUse | undefined;
}

/** A message of a guest on a WebSocket that carries model calls. */
export interface SocketRequest {
  call: ModelCall;
  /** the upstream may hear no end of a turn in it, and then makes no response */
  isTurn: boolean;
  /** a call decided on before, which this one takes the place of */
  replaces?: ModelCall;
}

/** A message of an upstream on a WebSocket that carries model calls. */
export interface SocketResponse {
  /** a call of the guest, or a new one: the upstream sent the response unrequested */
  call: ModelCall;
  /** status of an HTTP response that would say the same */
  status: number;
  /** the reader of the call needs this message */
  isRead: boolean;
  /** the response ends with this message */
  isEnd: boolean;
}

/** Reads the model calls of one WebSocket. */
export interface ModelSocket {
  /** longest message of a guest that is read, in `bytes`; a longer one ends the WebSocket */
  readonly requestMax: number;
  /** longest message of an upstream that is read, in `bytes`; a longer one passes unread */
  readonly responseMax: number;
  /**
   * Finds the call that a message of the guest makes; `undefined` for one that makes none. The message itself
   * goes to {@linkcode ModelCall.request}.
   *
   * @param text `undefined` for a binary message
   */
  request(text: string | undefined): SocketRequest | undefined;
  /** Forgets an unsent call. @returns the error message for the client, in the format of this API */
  refuse(call: ModelCall, code: string, message: string): string;
  /** Finds the call that a message of the upstream belongs to. */
  response(text: string): SocketResponse | undefined;
}

/** Recognizes model calls among requests. */
export interface ModelPort {
  /** Reader for a request that may be a model call, by its head; `undefined` for one that cannot be. */
  match(request: ModelRequest): ModelCall | undefined;
  /** Reader for the messages of an upgraded request; `undefined` if sbx cannot read them. */
  socket?(request: ModelRequest): ModelSocket | undefined;
  /** Reader for a request that fetches an answer made before; `undefined` for another request. */
  later?(request: ModelRequest): LaterAnswer | undefined;
}

// Name port: the network asks it about the names and addresses of a guest (docs/design/contracts/05-policy.md
// §5). Implemented by lib/network/dns.

/** Names that a guest resolved. Names are lower case without the last dot; addresses are plain text. */
export interface NamePort {
  /** True when a DNS answer of this guest maps the name to the address. */
  agrees(name: string, address: string): boolean;
  /** Name for which this guest last received the address. */
  nameOf(address: string): string | undefined;
  /**
   * Resolves a name for a request of the host, or for a host that a rule set. A `dns.query` event, decided
   * on like the guest's own queries.
   *
   * @returns at least one address
   * @throws {SbxError} `policy.blocked` and the errors of the resolver
   */
  lookup(name: string, actor: "vm" | "host"): Promise<string[]>;
}

// Cache port: artefacts of registries that VMs share (docs/design/contracts/05-policy.md §5,
// "Cache"). Implemented by lib/cache.

export interface CachePort {
  /**
   * Sees a request of the guest, also one that only the upstream may answer: apt's
   * say which suites an archive has.
   */
  see(request: Destination & { target: string }): void;
  /**
   * The artefact that a request is for; `undefined` for any other request.
   * @param request.target canonical path and query
   */
  match(request: Destination & { target: string }): CachedArtifact | undefined;
}

/** An immutable file of a registry. Its methods fail no request: without room or a disk there is no copy. */
export interface CachedArtifact {
  /** the upstream has to accept the request before the copy is served: its URL is signed */
  readonly isSigned: boolean;
  /** Opens the copy; `undefined` without one. */
  open(): Promise<CachedContent | undefined>;
  /**
   * Begins a copy.
   *
   * @param length in `bytes`; `undefined` where it is unknown
   * @param document gets a document of the registry for the host, with nothing of the guest's request in it
   */
  copy(
    length: number | undefined,
    document: (url: string, maxBytes?: number) => Promise<Uint8Array | undefined>,
  ): Promise<ArtifactCopy | undefined>;
}

/** A copy that is served. */
export interface CachedContent {
  readonly bytes: number;
  /** `ALGORITHM:HEX` */
  readonly digest: string;
  /** Next piece; null at the end. @throws {SbxError} `cache.damaged`, before the last piece */
  read(): Promise<Uint8Array | null>;
  close(): void;
}

/** A copy that is made of a response on its way to the guest. */
export interface ArtifactCopy {
  write(piece: Uint8Array): Promise<void>;
  /** Keeps it, once it has its digest. */
  keep(): void;
  drop(): void;
}
