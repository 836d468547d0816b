/**
 * Bridge between an MCP client's stdin and stdout and the host's frames
 * (docs/design/contracts/07-guest-wire.md §7, port 5002).
 */
import { type Channel, FrameError, writeAll } from "../../../lib/base/wire/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";

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

/** JSON-RPC: an error of the server. */
const INTERRUPTED = -32000;
const INTERRUPTED_TEXT =
  "the VM was suspended or forked during this call, which may have been carried out; look before you repeat it";
/** Connections in a row that the host ends without a word, until it is given up. */
const SILENT_MAX = 3;
const TOOLS_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

interface Message {
  t?: unknown;
  id?: string | number | null;
  method?: string;
}

interface HostOptions {
  channel: Channel;
  /** another connection to the host; absent: the end of the first is the end */
  reconnect?: () => Promise<Channel>;
  /** name of the client program */
  processName: string;
  /** passes a message on to the client */
  write(message: unknown): Promise<void>;
}

/**
 * The host's end of a client's MCP session. It outlives its connections: when a VM is suspended or forked,
 * they end unintended by its programs, and the client must notice as little as possible.
 */
class Host {
  readonly #options: HostOptions;
  #connection = Promise.withResolvers<Channel>();
  /** ids of the client's requests without an answer */
  readonly #open = new Set<Message["id"]>();
  /** ids of the host's requests without an answer: of this connection, and of those before */
  readonly #asked = new Set<Message["id"]>();
  readonly #stale = new Set<Message["id"]>();
  /** the client's initialize request, sent again on another connection */
  #initialize?: Message;
  #isAnswered = false;
  #isInitialized = false;
  /** the client took no message */
  #clientError?: unknown;

  constructor(options: HostOptions) {
    this.#options = options;
    this.#connection.promise.catch(ignore("who sends a message has the error"));
  }

  /**
   * Sends a message of the client, as soon as there is a connection.
   * @throws {FrameError} it does not fit a frame
   */
  async send(message: unknown): Promise<void> {
    const channel = await this.#connection.promise;
    if (!this.#note(message as Message)) return;
    try {
      await channel.send(message);
    } catch (error) {
      if (!(error instanceof FrameError)) return;
      this.#open.delete((message as Message).id);
      throw error;
    }
  }

  /** Passes the host's messages on until it has ended the session. @throws {Error} the host is gone */
  async relay(): Promise<void> {
    let channel = this.#options.channel;
    for (let silent = 0; silent < SILENT_MAX;) {
      const { heard, ended } = await this.#serve(channel).finally(() => channel.close());
      if (ended) return;
      const { reconnect } = this.#options;
      if (!reconnect) break;
      await this.#interrupt();
      silent = heard ? 0 : silent + 1;
      channel = await reconnect();
    }
    throw new Error("the host closed the connection");
  }

  /** Serves one connection. */
  async #serve(channel: Channel): Promise<{ heard: boolean; ended: boolean }> {
    let heard = false;
    try {
      await channel.send({ t: "Hello", process_name: this.#options.processName });
      // Absent: nothing was begun, or the client still waits for the answer.
      let repeated = this.#isAnswered ? this.#initialize?.id : undefined;
      if (this.#initialize) await channel.send(this.#initialize);
      if (repeated === undefined) this.#connection.resolve(channel);
      for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
        heard = true;
        const message = frame as Message;
        if (message.t === "End") return { heard, ended: true };
        if (repeated !== undefined && message.id === repeated && message.method === undefined) {
          repeated = undefined;
          await this.#resume(channel);
          continue;
        }
        await this.#receive(message);
      }
    } catch {
      if (this.#clientError !== undefined) throw this.#clientError;
    }
    return { heard, ended: false };
  }

  /** Continues the session where it was; the tools may have changed. */
  async #resume(channel: Channel): Promise<void> {
    if (this.#isInitialized) await channel.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    this.#connection.resolve(channel);
    await this.#write(TOOLS_CHANGED);
  }

  async #receive(message: Message): Promise<void> {
    if (message.method !== undefined && message.id !== undefined) this.#ask(message.id);
    if (message.method === undefined) {
      this.#open.delete(message.id);
      if (message.id === this.#initialize?.id) this.#isAnswered = true;
    }
    await this.#write(message);
  }

  #ask(id: Message["id"]): void {
    this.#asked.add(id);
    this.#stale.delete(id);
  }

  /** The calls that were under way have no answer; what comes from now on waits for another connection. */
  async #interrupt(): Promise<void> {
    this.#connection = Promise.withResolvers();
    this.#connection.promise.catch(ignore("who sends a message has the error"));
    for (const id of this.#asked) this.#stale.add(id);
    this.#asked.clear();
    for (const id of [...this.#open]) {
      if (id === this.#initialize?.id && !this.#isAnswered) continue;
      this.#open.delete(id);
      await this.#write({ jsonrpc: "2.0", id, error: { code: INTERRUPTED, message: INTERRUPTED_TEXT } });
    }
  }

  async #write(message: unknown): Promise<void> {
    try {
      await this.#options.write(message);
    } catch (error) {
      this.#clientError = error;
      throw error;
    }
  }

  /** Notes messages to answer or repeat. @returns false: an answer to a question of an earlier connection */
  #note(message: Message): boolean {
    const { id, method } = message ?? {};
    if (method === "notifications/initialized") this.#isInitialized = true;
    if (id === undefined || id === null) return true;
    if (method === undefined) return this.#asked.delete(id) || !this.#stale.delete(id);
    if (method === "initialize") this.#initialize = message;
    this.#open.add(id);
    return true;
  }
}

interface ByteSource {
  read(into: Uint8Array): Promise<number | null>;
}

const CHUNK = 64 * 1024;
const NEWLINE = 10;

/**
 * Reads the lines of a source, without line endings. A line over `limit` `bytes` yields `undefined` and is
 * not buffered; text after the last newline is a line too.
 */
export async function* readLines(source: ByteSource, limit: number): AsyncGenerator<Uint8Array | undefined> {
  const chunk = new Uint8Array(CHUNK);
  let parts: Uint8Array[] = [];
  let size = 0;
  const append = (part: Uint8Array) => {
    size += part.length;
    if (size > limit) parts = [];
    else if (part.length > 0) parts.push(part.slice());
  };
  const finish = () => {
    const line = size > limit ? undefined : concat(parts, size);
    parts = [];
    size = 0;
    return line;
  };
  for (let read = await source.read(chunk); read !== null; read = await source.read(chunk)) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0 && end < read; end = chunk.indexOf(NEWLINE, start)) {
      append(chunk.subarray(start, end));
      start = end + 1;
      yield finish();
    }
    append(chunk.subarray(start, read));
  }
  if (size > 0) yield finish();
}

function concat(parts: Uint8Array[], size: number): Uint8Array {
  if (parts.length === 1) return parts[0];
  const whole = new Uint8Array(size);
  for (let at = 0, i = 0; i < parts.length; at += parts[i++].length) whole.set(parts[i], at);
  return whole;
}
