import type { Header } from "./header.ts";
import type { Connection } from "./connection.ts";

/** Where an answer goes: the guest's connection, or a caller on the host. Its methods throw `ConnectionLost`. */
export interface Outlet {
  /** whether a guest's connection is to be closed behind the answer; set before it begins */
  last: boolean;
  /** A whole answer. @param declared the `content-length` of an answer to HEAD */
  whole(status: number, headers: readonly Header[], body: Uint8Array, declared?: string): Promise<void>;
  /** The head of an answer whose body follows. @param length where it is known */
  begin(status: number, headers: readonly Header[], length: number | undefined): Promise<void>;
  write(piece: Uint8Array): Promise<void>;
  end(trailers: readonly Header[]): Promise<void>;
  /** Ends an answer that has begun and cannot be completed, so that nobody takes it for a whole one. */
  cut(error: Error): void;
  /** The guest's own connection, for an upgrade that the upstream took. */
  upgraded?(status: number, headers: readonly Header[], protocol: string): Promise<Connection>;
  /** Calls back when whoever waits for the answer is gone. */
  watch(gone: () => void): void;
  unwatch(): void;
  /** ends the waiting for a person's answer */
  readonly signal: AbortSignal;
}
