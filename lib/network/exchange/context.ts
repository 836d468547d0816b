import type { Decision, Gate } from "../../policy/mod.ts";
import type { CredentialPort, ModelPort } from "../interface/mod.ts";
import type { Pool } from "../upstream/pool.ts";
import type { DialAddress } from "../upstream/upstream.ts";
import type { BufferBudget } from "./body_buffer.ts";
import type { SbxError } from "../../base/error/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { NetTimeouts } from "../limit.ts";
import type { Header } from "../message/header.ts";
import type { GrpcTypes } from "../grpc/mod.ts";
import type { ExchangeCache } from "./cached.ts";

/** Parts shared by all exchanges of one VM. */
export interface ExchangeContext {
  gate: Gate;
  broker: CredentialPort;
  models?: ModelPort;
  pool: Pool;
  /** absent: the profile shares no cache */
  cache?: ExchangeCache;
  /**
   * Address to connect to for a host.
   *
   * @param address destination of the guest's connection; `undefined` looks the host up
   */
  locate(
    host: string,
    port: number,
    address: string | undefined,
    actor: "vm" | "host",
  ): Promise<DialAddress>;
  timeouts: NetTimeouts;
  /** idle timeout of a relayed connection in `ms` */
  relayMs: number;
  /** time for the closing handshake of a WebSocket in `ms` */
  closeMs: number;
  /** time for the rest of a model's answer whose client is gone, in `ms` */
  lingerMs: number;
  budget: BufferBudget;
  /** events of WebSockets have their messages */
  recordsMessages: boolean;
  /** services of the profile's descriptors now; absent, or without a result: the profile has none */
  grpcTypes?(): GrpcTypes | undefined;
}

/** A refusal in the protocol of the client. */
export interface BlockReply {
  status: number;
  headers: Header[];
  body: Uint8Array;
}

/**
 * Receiver of one response: a guest's connection, or a caller on the host. Its
 * writing methods throw `ClientLost`.
 */
export interface Outlet {
  /** ends the wait for a person's answer when the client is gone */
  readonly signal: AbortSignal;
  /**
   * `ms` after which a client that waits for a person is answered; absent: it waits
   * as long as the person is asked
   */
  readonly heldMs?: number;
  /** Sends `100 Continue` to a client that waits for it; until then its body is not read. */
  proceed?(): Promise<void>;
  /** Sends a whole response. @param declared `content-length` of a response to HEAD, or without a body */
  sendWhole(status: number, headers: readonly Header[], body: Uint8Array, declared?: string): Promise<void>;
  /** form of refusals for a client that reads no JSON; `undefined` for the usual form */
  blockReply?: (decision: Decision) => BlockReply | undefined;
  /** Sends the decision that blocks the request or its response. */
  sendBlock(decision: Decision): Promise<void>;
  /** Sends an error. */
  sendError(error: SbxError): Promise<void>;
  /** Begins a streaming response; its head may wait for the first piece of the body. */
  begin(status: number, headers: readonly Header[], length: number | undefined): void;
  /** Sends a head that waits. */
  flush(): Promise<void>;
  write(piece: Uint8Array): Promise<void>;
  end(trailers: readonly Header[]): Promise<void>;
  /** Ends a response that cannot be completed, so that it is not taken for a complete one. */
  cut(): void;
  /** Confirms an upgrade that the upstream accepted. @returns the client's connection */
  upgrade?(headers: readonly Header[], protocol: string): Promise<BufferedConnection>;
  /** Calls back when the client goes away; only while the request's body is not being read. */
  watch(onGone: () => void): void;
}
