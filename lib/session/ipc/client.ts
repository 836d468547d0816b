import { SbxError } from "../../base/error/mod.ts";
import { FRAME_LIMIT, FrameChannel } from "../../base/wire/mod.ts";
import { greet } from "./hello.ts";
import {
  type Call,
  type CallKind,
  type Input,
  REPLIES,
  Reply,
  REPLY_FRAME_LIMIT,
  type ReplyTo,
  type SingleKind,
} from "./schema.ts";

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
   * @throws {SbxError} `process.gone`: nothing listens there; as {@linkcode greet}
   */
  static async open<T extends CallKind>(socket: string, call: Call & { t: T }): Promise<CallStream<T>> {
    let conn: Deno.Conn;
    try {
      conn = await Deno.connect({ transport: "unix", path: socket });
    } catch (cause) {
      throw gone("does not answer", cause);
    }
    const channel = new FrameChannel(conn, REPLY_FRAME_LIMIT, REPLY_FRAME_LIMIT, FRAME_LIMIT);
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
   * @throws {SbxError} `process.gone`; `process.bad_reply`: the reply is not one to this call; or the error that the
   * process replied with
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
): Promise<ReplyTo<T>> {
  using stream = await CallStream.open<T>(socket, request);
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
