/**
 * Compression of WebSocket messages (permessage-deflate, RFC 7692): its negotiation with each side, and the
 * two directions of zlib. Messages are inflated to be searched, and compressed again.
 */
import { constants, createDeflateRaw, createInflateRaw, type DeflateRaw, type InflateRaw } from "node:zlib";
import { joinBytes } from "../../base/bytes/mod.ts";
import { MessageFault } from "../fault.ts";
import { SOCKET_INFLATED_MAX } from "../limit.ts";
import type { Header } from "../message/header.ts";
import { SocketFault } from "./fault.ts";

/** Field that negotiates extensions: with guest and upstream apart, so it is never passed on. */
export const EXTENSIONS = "sec-websocket-extensions";
const NAME = "permessage-deflate";
/** Offer to an upstream. */
export const DEFLATE_OFFER = `${NAME}; client_max_window_bits`;

/** Compression agreed on with one side. */
export interface Deflate {
  /** value of {@linkcode EXTENSIONS} in the answer to a guest */
  answer: string;
  /** that side keeps its window from one message to the next */
  readsTakeover: boolean;
  /** frames to that side */
  writes: {
    takeover: boolean;
    /** largest window, as a power of two; {@linkcode PLAIN_BITS}: nothing is compressed */
    bits: number;
  };
}

const MAX_BITS = 15;
/** Window that zlib cannot write. */
const PLAIN_BITS = 8;
/** Largest window that sbx writes, and its level of memory: 32 KiB for each direction that compresses. */
const OWN_BITS = 12;
const OWN_MEMORY = 5;
/** End of a flushed block, which messages leave out (RFC 7692 §7.2.1). */
const TAIL = Uint8Array.of(0, 0, 255, 255);
/** Message without text, and end of one whose text was written (RFC 7692 §7.2.3.6). */
const EMPTY_BLOCK = Uint8Array.of(0);

/**
 * First offer of a guest that can be agreed on; `undefined` for none. Offers that
 * cannot be read are declined (§5.1).
 */
export function agreeWithGuest(headers: readonly Header[]): Deflate | undefined {
  for (const extension of extensionsOf(headers) ?? []) {
    const given = extension.name === NAME ? parametersOf(extension, "guest") : undefined;
    if (!given) continue;
    const answer = [NAME];
    if (given.server_no_context_takeover) answer.push("server_no_context_takeover");
    if (given.client_no_context_takeover) answer.push("client_no_context_takeover");
    if (given.server_max_window_bits) answer.push(`server_max_window_bits=${given.server_max_window_bits}`);
    return {
      answer: answer.join("; "),
      readsTakeover: !given.client_no_context_takeover,
      writes: {
        takeover: !given.server_no_context_takeover,
        bits: Number(given.server_max_window_bits ?? MAX_BITS),
      },
    };
  }
  return undefined;
}

/**
 * Compression that an upstream agreed to.
 *
 * @param isOffered {@linkcode DEFLATE_OFFER} was sent
 * @throws {MessageFault} for an answer that does not fit the offer
 */
export function agreeWithUpstream(headers: readonly Header[], isOffered: boolean): Deflate | undefined {
  const extensions = extensionsOf(headers);
  if (extensions?.length === 0) return undefined;
  if (!isOffered) throw new MessageFault("an extension of WebSocket that was not offered");
  if (extensions?.length !== 1 || extensions[0].name !== NAME) {
    throw new MessageFault("other extensions of WebSocket than the one that was offered");
  }
  const given = parametersOf(extensions[0], "upstream");
  if (!given) throw new MessageFault("invalid parameters of permessage-deflate");
  return {
    answer: "",
    readsTakeover: !given.server_no_context_takeover,
    writes: {
      takeover: !given.client_no_context_takeover,
      bits: Number(given.client_max_window_bits ?? MAX_BITS),
    },
  };
}

interface Extension {
  name: string;
  parameters: [name: string, value: string | undefined][];
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const PARAMETER = `[ \\t]*;[ \\t]*(${TOKEN})(?:[ \\t]*=[ \\t]*(?:(${TOKEN})|"(${TOKEN})"))?`;
const EXTENSION = new RegExp(`^[ \\t]*(${TOKEN})((?:${PARAMETER})*)[ \\t]*$`);

/**
 * Extensions of all fields (RFC 6455 §9.1), in their order; `undefined` for a field that breaks the grammar.
 */
function extensionsOf(headers: readonly Header[]): Extension[] | undefined {
  const extensions: Extension[] = [];
  for (const [name, value] of headers) {
    if (name !== EXTENSIONS) continue;
    // No token has a comma, and no value that is quoted may.
    for (const text of value.split(",")) {
      const match = EXTENSION.exec(text);
      if (!match) return undefined;
      const parameters = Array.from(
        match[2].matchAll(new RegExp(PARAMETER, "g")),
        ([, key, plain, quoted]): [string, string | undefined] => [key, plain ?? quoted],
      );
      extensions.push({ name: match[1], parameters });
    }
  }
  return extensions;
}

type Parameters = Partial<Record<string, string>>;

/**
 * Parameters of permessage-deflate (RFC 7692 §7.1); `undefined` for invalid ones.
 * @param from the side that sent them
 */
function parametersOf({ parameters }: Extension, from: "guest" | "upstream"): Parameters | undefined {
  const given: Parameters = {};
  for (const [name, value] of parameters) {
    if (given[name] !== undefined) return undefined;
    if (name === "server_no_context_takeover" || name === "client_no_context_takeover") {
      if (value !== undefined) return undefined;
    } else if (name === "server_max_window_bits" || name === "client_max_window_bits") {
      // A client may say without a value that it can be limited.
      const mayLack = name === "client_max_window_bits" && from === "guest";
      if (value === undefined ? !mayLack : !/^([89]|1[0-5])$/.test(value)) return undefined;
    } else return undefined;
    given[name] = value ?? "yes";
  }
  return given;
}

/** A stream of zlib: one write at a time, and its output as it is read. */
class Coder<T extends InflateRaw | DeflateRaw> {
  #error?: Error;
  #wake: () => void = () => {};

  constructor(readonly stream: T) {
    stream.on("readable", () => this.#wake());
    stream.on("error", (error: Error) => {
      this.#error = error;
      this.#wake();
    });
  }

  /** @param write calls back once all of its output can be read @throws {Error} of zlib */
  async *run(write: (done: () => void) => void): AsyncGenerator<Uint8Array, void> {
    let isDone = false;
    write(() => {
      isDone = true;
      this.#wake();
    });
    while (!this.#error) {
      const part: Uint8Array | null = this.stream.read();
      if (part !== null) yield part;
      else if (isDone) return;
      else await new Promise<void>((resolve) => this.#wake = resolve);
    }
    throw this.#error;
  }
}

/** Inflates the messages of one side. */
export class Inflater {
  readonly #keepsWindow: boolean;
  #stream?: Coder<InflateRaw>;
  /** compressed `bytes` given to the stream */
  #given = 0;
  /** inflated `bytes` of the message */
  #size = 0;

  constructor({ readsTakeover }: Deflate) {
    this.#keepsWindow = readsTakeover;
  }

  /**
   * Inflates a piece of a message, 16 KiB at a time: the next part is made once the last one was taken.
   *
   * @param isLast ends its message
   * @throws {SocketFault} 1007 for bytes that are not compressed, 1009 for a message that is too long
   */
  async *inflate(bytes: Uint8Array, isLast: boolean): AsyncGenerator<Uint8Array, void> {
    yield* this.#push(bytes);
    if (!isLast) return;
    yield* this.#push(TAIL);
    this.#size = 0;
    if (!this.#keepsWindow) this.close();
  }

  async *#push(bytes: Uint8Array): AsyncGenerator<Uint8Array, void> {
    if (bytes.length === 0) return;
    this.#stream ??= new Coder(createInflateRaw());
    const { stream } = this.#stream;
    try {
      for await (const part of this.#stream.run((done) => stream.write(bytes, done))) {
        this.#size += part.length;
        if (this.#size > SOCKET_INFLATED_MAX) {
          throw new SocketFault(`a compressed message over ${SOCKET_INFLATED_MAX} bytes`, 1009);
        }
        yield part;
      }
    } catch (cause) {
      throw cause instanceof SocketFault ? cause : new SocketFault("a message that cannot be inflated", 1007);
    }
    this.#given += bytes.length;
    // Bytes behind a final block belong to no block; programs differ in their use of them.
    if (stream.bytesWritten !== this.#given) throw new SocketFault("a final block in a message", 1007);
  }

  /** Frees the window. */
  close(): void {
    this.#stream?.stream.destroy();
    this.#stream = undefined;
    this.#given = 0;
  }
}

/** Compresses the messages to one side. */
export class Deflater {
  readonly #writes: Deflate["writes"];
  #stream?: Coder<DeflateRaw>;

  constructor({ writes }: Deflate) {
    this.#writes = writes;
  }

  /** False where that side reads a smaller window than zlib writes. */
  get isAble(): boolean {
    return this.#writes.bits > PLAIN_BITS;
  }

  /** Compresses a piece of a message, whole: its reader may wait for it. @param isLast ends its message */
  async deflate(bytes: Uint8Array, isLast: boolean): Promise<Uint8Array> {
    // A second flush writes nothing; the head of an empty block is left of it.
    if (bytes.length === 0) {
      if (isLast && !this.#writes.takeover) this.close();
      return EMPTY_BLOCK.slice();
    }
    this.#stream ??= new Coder(createDeflateRaw({
      windowBits: Math.min(this.#writes.bits, OWN_BITS),
      memLevel: OWN_MEMORY,
      level: constants.Z_BEST_SPEED,
    }));
    const { stream } = this.#stream;
    const parts: Uint8Array[] = [];
    const write = (done: () => void) => {
      stream.write(bytes);
      stream.flush(constants.Z_SYNC_FLUSH, done);
    };
    for await (const part of this.#stream.run(write)) parts.push(part);
    if (isLast && !this.#writes.takeover) this.close();
    const compressed = joinBytes(parts);
    return isLast ? compressed.subarray(0, -TAIL.length) : compressed;
  }

  /** Frees the window. */
  close(): void {
    this.#stream?.stream.destroy();
    this.#stream = undefined;
  }
}
