/** Both ends of a call over a UDS, which begins with a greeting of each side. */
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { type Channel, FRAME_LIMIT, FrameChannel } from "../../base/wire/mod.ts";
import {
  Call,
  type CallKind,
  Hello,
  Input,
  IPC_VERSION,
  REPLIES,
  Reply,
  REPLY_FRAME_LIMIT,
  type ReplyTo,
  type SingleKind,
} from "./schema.ts";
import { acceptAll } from "../../base/accept/mod.ts";
import { backgroundDelay, timeLimit } from "../../base/time/mod.ts";
import { z } from "zod";

/** One call to an sbx-process, and the stream of replies to it. */
export class CallStream<T extends CallKind> {
  readonly #kind: T;
  readonly #channel: FrameChannel;

  private constructor(kind: T, channel: FrameChannel) {
    this.#kind = kind;
    this.#channel = channel;
  }

  /**
   * Connects, greets and sends the call.
   *
   * @param socket path of the process's UDS
   * @param signal closes it, also while the process does not answer
   * @throws {SbxError} `process.gone`: nothing listens there; as {@linkcode greet}
   */
  static async open<T extends CallKind>(
    socket: string,
    call: Call & { t: T },
    signal?: AbortSignal,
  ): Promise<CallStream<T>> {
    let conn: Deno.Conn;
    try {
      conn = await Deno.connect({ transport: "unix", path: socket });
    } catch (cause) {
      throw gone("does not answer", cause);
    }
    const channel = new FrameChannel(conn, REPLY_FRAME_LIMIT, REPLY_FRAME_LIMIT, FRAME_LIMIT);
    signal?.addEventListener("abort", () => channel.close(), { once: true });
    if (signal?.aborted) channel.close();
    try {
      await greet(channel);
      await channel.send(call);
    } catch (error) {
      channel.close();
      throw error instanceof SbxError ? error : gone("went away", error);
    }
    return new CallStream(call.t, channel);
  }

  send(input: Input): Promise<void> {
    return this.#channel.send(input);
  }

  /**
   * Reads the next reply.
   *
   * @returns null at the end
   * @throws {SbxError} `process.gone`; `process.bad_reply`: the reply is not one to this call; or the
   * error that the process replied with
   */
  async next(): Promise<ReplyTo<T> | null> {
    let frame: unknown;
    try {
      frame = await this.#channel.next();
    } catch (cause) {
      throw gone("went away in the middle of a reply", cause);
    }
    if (frame === null) return null;
    const { data: reply, error } = Reply.safeParse(frame);
    if (reply?.t === "Failed") throw new SbxError(reply.code, reply.message, { hint: reply.hint });
    if (reply === undefined || !this.#expects(reply)) {
      const what = reply === undefined ? "a malformed reply" : `the reply ${reply.t}`;
      throw new SbxError("process.bad_reply", `the VM's process sent ${what} to the call ${this.#kind}`, {
        cause: error,
        hint: "stop the VM and start it again",
      });
    }
    return reply;
  }

  close(): void {
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #expects(reply: Reply): reply is ReplyTo<T> {
    const kinds: readonly Reply["t"][] = REPLIES[this.#kind];
    return kinds.includes(reply.t);
  }
}

/**
 * Sends a call that has a single reply.
 *
 * @throws {SbxError} as {@linkcode CallStream.open} and {@linkcode CallStream.next}
 */
export async function call<T extends SingleKind>(
  socket: string,
  request: Call & { t: T },
  signal?: AbortSignal,
): Promise<ReplyTo<T>> {
  using stream = await CallStream.open<T>(socket, request, signal);
  const reply = await stream.next();
  if (reply === null) throw gone("ended before it replied");
  return reply;
}

function gone(what: string, cause?: unknown): SbxError {
  return new SbxError("process.gone", `the VM's process ${what}`, {
    cause,
    hint: "sbx info NAME shows its last error",
  });
}

/** Longest wait for pending replies at the close, in `ms`. */
const CLOSE_DEADLINE_MS = timeLimit(1000);

/** The service's end of one call. */
export interface Caller<R extends Reply = Reply> {
  reply(reply: R): Promise<void>;
  /** @returns the next input, or null once the caller is gone */
  input(): Promise<Input | null>;
}

type Handler = (call: Call, caller: Caller) => Promise<void>;

/** Serves calls on a UDS until the listener is closed. */
export class CallServer {
  readonly #listener: Deno.Listener;
  readonly #pending = new Set<Promise<void>>();

  constructor(listener: Deno.Listener, handle: Handler) {
    this.#listener = listener;
    this.#accept(handle);
  }

  /** Accepts no more calls, and waits for the replies to those under way. */
  async close(): Promise<void> {
    this.#listener.close();
    await Promise.race([Promise.all(this.#pending), backgroundDelay(CLOSE_DEADLINE_MS)]);
  }

  async #accept(handle: Handler): Promise<void> {
    for await (const conn of acceptAll(this.#listener)) {
      const call = serveCall(new FrameChannel(conn, FRAME_LIMIT, FRAME_LIMIT, REPLY_FRAME_LIMIT), handle);
      this.#pending.add(call);
      call.finally(() => this.#pending.delete(call));
    }
  }
}

async function serveCall(channel: FrameChannel, handle: Handler): Promise<void> {
  const reply = (message: Reply) => channel.send(message);
  try {
    await greet(channel);
    await handle(Call.parse(await channel.next()), {
      reply,
      input: async () => {
        const frame = await channel.next().catch(() => null);
        return frame === null ? null : Input.parse(frame);
      },
    });
  } catch (cause) {
    const { code, message, hint } = asSbxError(cause, "a call to the VM's process");
    await reply({ t: "Failed", code, message, hint }).catch(ignore("the caller has left"));
  } finally {
    await channel.finish();
    channel.close();
  }
}

/** Longest wait for a peer's greeting, in `ms` (docs/design/contracts/07-guest-wire.md §7). */
const HELLO_DEADLINE_MS = timeLimit(5000);

let hash: Promise<string> | undefined;

/**
 * SHA-256 of this wire's schemas: two builds whose messages differ refuse each other instead of misreading.
 * Not BLAKE3, because the runtime's own hash loads nothing before a VM's process can answer.
 */
export function schemaHash(): Promise<string> {
  return hash ??= hashSchemas();
}

async function hashSchemas(): Promise<string> {
  const schemas = [Call, Input, Reply].map((schema) => z.toJSONSchema(schema));
  const text = JSON.stringify([...schemas, REPLIES]);
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))).toHex();
}

/**
 * Sends a greeting and checks the peer's.
 *
 * @throws {SbxError} `process.hello_mismatch`: the peer is another version of sbx;
 * `process.hello_timeout`: no greeting
 */
export async function greet(channel: Channel): Promise<void> {
  const hello = { t: "Hello", version: IPC_VERSION, schema_hash: await schemaHash() };
  await channel.send(hello);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new SbxError("process.hello_timeout", "the other side of the socket did not greet")),
      HELLO_DEADLINE_MS,
    );
  });
  const frame = await Promise.race([channel.next(), timeout]).finally(() => clearTimeout(timer));
  const { data: peer } = Hello.safeParse(frame);
  if (peer?.version === IPC_VERSION && peer.schema_hash === hello.schema_hash) return;
  throw new SbxError(
    "process.hello_mismatch",
    "the service and this VM's process are of different versions of sbx",
    { hint: "stop the VM and start it again" },
  );
}
