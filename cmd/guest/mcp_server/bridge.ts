/** Between an MCP client's stdin and stdout, and the host's frames (contracts.md §7, port 5002). */
import type { Channel } from "../../../lib/base/wire/channel.ts";
import { FrameError } from "../../../lib/base/wire/frame.ts";
import { writeAll } from "../../../lib/base/wire/write.ts";
import { lines } from "./line.ts";

/** Most bytes of a message, either way: a frame of this port takes no more. */
export const MESSAGE_LIMIT = 1024 * 1024;

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;

/** What is bridged. */
export interface Ends {
  input: { read(into: Uint8Array): Promise<number | null> };
  output: { write(bytes: Uint8Array): Promise<number> };
  /** of frames of at most {@linkcode MESSAGE_LIMIT} */
  channel: Channel;
  /** name of the program whose messages these are */
  processName: string;
}

/**
 * Passes messages both ways until the client has ended and its last answers are out.
 *
 * @throws {Error} when the host ends it first
 */
export async function bridge({ input, output, channel, processName }: Ends): Promise<void> {
  const encoder = new TextEncoder();
  let written: Promise<void> = Promise.resolve();
  const write = (message: unknown) => {
    const line = encoder.encode(`${JSON.stringify(message)}\n`);
    return written = written.then(() => writeAll(output, line));
  };
  await channel.send({ t: "Hello", process_name: processName });
  await Promise.race([
    up(input, channel, write).then(() => new Promise<never>(() => {})),
    down(channel, write),
  ]);
}

async function up(
  input: Ends["input"],
  channel: Channel,
  write: (message: unknown) => Promise<void>,
): Promise<void> {
  const decoder = new TextDecoder();
  for await (const line of lines(input, MESSAGE_LIMIT)) {
    if (line === undefined) {
      await write(refusal(null, INVALID_REQUEST, `a message has at most ${MESSAGE_LIMIT} bytes`));
      continue;
    }
    const text = decoder.decode(line).trim();
    if (text === "") continue;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      await write(refusal(null, PARSE_ERROR, "a line is not JSON"));
      continue;
    }
    try {
      await channel.send(message);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      const id = (message as { id?: unknown } | null)?.id ?? null;
      await write(refusal(id, INVALID_REQUEST, `a message has at most ${MESSAGE_LIMIT} bytes`));
    }
  }
  await channel.send({ t: "End" });
}

async function down(channel: Channel, write: (message: unknown) => Promise<void>): Promise<void> {
  for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
    if ((frame as { t?: unknown }).t === "End") return;
    await write(frame);
  }
  throw new Error("the host has closed the connection");
}

function refusal(id: unknown, code: number, message: string): object {
  return { jsonrpc: "2.0", id, error: { code, message } };
}
