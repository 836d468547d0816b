/**
 * Bridge between an MCP client's stdin and stdout and the host's frames
 * (docs/design/contracts/07-guest-wire.md §7, port 5002).
 */
import { FrameError, writeAll } from "../../../lib/base/wire/mod.ts";
import { Host, type HostOptions } from "./host.ts";
import { readLines } from "./line.ts";

/** Longest message of a client, in `bytes`: the frame limit of this port. The host's may be longer. */
export const MESSAGE_LIMIT = 1024 * 1024;

const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const TOO_LONG = `the message is over the limit of ${MESSAGE_LIMIT} bytes`;

/** Both ends of a bridge; channels to the host have frames of at most {@linkcode MESSAGE_LIMIT}. */
export interface BridgeOptions extends Omit<HostOptions, "write"> {
  input: { read(into: Uint8Array): Promise<number | null> };
  output: { write(bytes: Uint8Array): Promise<number> };
}

/**
 * Relays messages both ways until the client has ended and its last answers are written.
 *
 * @throws {Error} the host ended the connection first, and another one cannot be had
 */
export async function bridge({ input, output, ...options }: BridgeOptions): Promise<void> {
  const encoder = new TextEncoder();
  let written: Promise<void> = Promise.resolve();
  const write = (message: unknown) => {
    const line = encoder.encode(`${JSON.stringify(message)}\n`);
    return written = written.then(() => writeAll(output, line));
  };
  const host = new Host({ ...options, write });
  await Promise.race([
    sendToHost(input, host, write).then(() => new Promise<never>(() => {})),
    host.relay(),
  ]);
}

async function sendToHost(
  input: BridgeOptions["input"],
  host: Host,
  write: (message: unknown) => Promise<void>,
): Promise<void> {
  const decoder = new TextDecoder();
  for await (const line of readLines(input, MESSAGE_LIMIT)) {
    if (line === undefined) {
      await write(errorResponse(null, INVALID_REQUEST, TOO_LONG));
      continue;
    }
    const text = decoder.decode(line).trim();
    if (text === "") continue;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      await write(errorResponse(null, PARSE_ERROR, "the line is not valid JSON"));
      continue;
    }
    try {
      await host.send(message);
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      const id = (message as { id?: unknown } | null)?.id ?? null;
      await write(errorResponse(id, INVALID_REQUEST, TOO_LONG));
    }
  }
  await host.send({ t: "End" });
}

function errorResponse(id: unknown, code: number, message: string): object {
  return { jsonrpc: "2.0", id, error: { code, message } };
}
