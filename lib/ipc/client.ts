import { SbxError } from "../base/error/mod.ts";
import { FrameChannel } from "../base/wire/mod.ts";
import { greet } from "./hello.ts";
import { type Call, type Input, Reply } from "./schema.ts";

/** One call to an sbx-process. */
export class IpcCall {
  #channel: FrameChannel;

  private constructor(channel: FrameChannel) {
    this.#channel = channel;
  }

  /**
   * Connects, greets and asks.
   *
   * @throws {SbxError} `process.gone` when nothing listens there
   */
  static async open(socket: string, call: Call): Promise<IpcCall> {
    let conn: Deno.Conn;
    try {
      conn = await Deno.connect({ transport: "unix", path: socket });
    } catch (cause) {
      throw new SbxError("process.gone", "the VM's process does not answer", {
        cause,
        hint: "sbx info shows its last error",
      });
    }
    const channel = new FrameChannel(conn);
    try {
      await greet(channel);
      await channel.send(call);
    } catch (error) {
      channel.close();
      throw error instanceof SbxError
        ? error
        : new SbxError("process.gone", "the VM's process went away", { cause: error });
    }
    return new IpcCall(channel);
  }

  send(input: Input): Promise<void> {
    return this.#channel.send(input);
  }

  /** The next answer, or null at the end. @throws {SbxError} the failure that the process tells */
  async next(): Promise<Reply | null> {
    let frame: unknown;
    try {
      frame = await this.#channel.next();
    } catch (cause) {
      throw new SbxError("process.gone", "the VM's process went away in the middle of an answer", { cause });
    }
    if (frame === null) return null;
    const reply = Reply.parse(frame);
    if (reply.t === "Failed") throw new SbxError(reply.code, reply.message, { hint: reply.hint });
    return reply;
  }

  close(): void {
    this.#channel.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** A call with one answer. */
export async function ask(socket: string, call: Call): Promise<Reply> {
  using open = await IpcCall.open(socket, call);
  const reply = await open.next();
  if (reply === null) throw new SbxError("process.gone", "the VM's process ended before it answered");
  return reply;
}
