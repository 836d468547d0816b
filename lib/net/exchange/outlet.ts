import type { SbxError } from "../../base/error/mod.ts";
import type { Decision } from "../../policy/mod.ts";
import type { Connection } from "../connection.ts";
import type { Header } from "../message/header.ts";

/** Where an answer goes: a guest's connection, or a caller on the host. What writes throws `ClientLost`. */
export interface Outlet {
  /** ends the waiting for a person's answer, when nobody waits for it any more */
  readonly signal: AbortSignal;
  /** A whole answer. @param declared the `content-length` of an answer that has no body of its own */
  whole(status: number, headers: readonly Header[], body: Uint8Array, declared?: string): Promise<void>;
  /** The answer to what policy refuses: the record of its decision. */
  blocked(decision: Decision): Promise<void>;
  /** The answer to what could not be done. */
  failed(error: SbxError): Promise<void>;
  /** The head of an answer whose body follows; it may wait for the body's first piece. */
  begin(status: number, headers: readonly Header[], length: number | undefined): void;
  /** Sends a head that waits. */
  flush(): Promise<void>;
  write(piece: Uint8Array): Promise<void>;
  end(trailers: readonly Header[]): Promise<void>;
  /** Ends an answer that has begun and cannot be completed, so that nobody takes it for a whole one. */
  cut(): void;
  /** The client's own connection, once it has been told that the upstream took its upgrade. */
  upgrade?(headers: readonly Header[], protocol: string): Promise<Connection>;
  /** Calls back when the client goes away; only while nothing is read from it. */
  watch(gone: () => void): void;
}
