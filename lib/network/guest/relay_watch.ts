/** Reads along with a relayed connection: bytes of HTTP, or of TLS for another host, are no other protocol. */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { Protocol } from "../../policy/mod.ts";
import { MessageFault } from "../fault.ts";
import { HELLO_SEARCH_MAX } from "../limit.ts";
import { NO_BYTES } from "../message/byte_buffer.ts";
import { decodeLatin1 } from "../message/latin1.ts";
import type { Watch } from "../relay.ts";
import { helloLength, parseHello } from "./hello.ts";
import { type Likeness, likeness } from "./protocol.ts";
import { RequestFinder, sniff } from "./sniff.ts";

/** The first bytes of a client that was silent are HTTP or TLS, and nothing has been relayed. */
export class ClientSpoke extends Error {
  constructor(readonly protocol: "http" | "tls") {
    super(`the client speaks ${protocol.toUpperCase()}`);
  }
}

export interface RelayWatchOptions {
  /** hosts that TLS within the connection may name */
  hosts: readonly string[];
  /** protocol that its rule holds it to */
  protocol?: Protocol;
}

/** Most `bytes` of one side that are kept to recognize its protocol. */
const KEPT_MAX = 4096;
const HANDSHAKE = 22;

/**
 * Watches the first turn of each side, whenever it comes, and the beginning of each later turn of the client. The client's
 * first turn ends when the server speaks after it: a server of HTTP answers HTTP.
 */
export class RelayWatch implements Watch {
  readonly #options: RelayWatchOptions;
  readonly #finder = new RequestFinder();
  /** the first bytes of a side wait until its protocol is known */
  #clientFirst: boolean;
  #serverFirst: boolean;
  /** bytes that have passed */
  #sent = 0;
  #received = 0;
  #isFirstTurn = true;
  /** the server has spoken since the client last did */
  #isTurn = true;
  /** last bytes that have passed, where they may begin a ClientHello */
  #tail: Uint8Array = NO_BYTES;

  constructor(options: RelayWatchOptions) {
    this.#options = options;
    this.#clientFirst = this.#serverFirst = options.protocol !== undefined;
  }

  /**
   * Reads bytes on their way from the client, together with earlier bytes that had to wait.
   *
   * @param ended no more will come
   * @returns number of bytes that may pass; the others wait for more
   * @throws {MessageFault} they must not @throws {ClientSpoke}
   */
  client(bytes: Uint8Array, ended: boolean): number {
    if (bytes.length === 0) return 0;
    if (this.#sent + this.#received === 0) {
      const speech = sniff(bytes);
      if (speech === "http" || speech === "tls") throw new ClientSpoke(speech);
      // Some servers take the end of the connection for that of a request's line.
      if (speech === "more") {
        if (ended) throw new MessageFault("half of a request");
        return 0;
      }
    }
    if (this.#clientFirst) {
      if (!this.#isAlike("client", bytes, ended)) return 0;
      this.#clientFirst = false;
    }
    const passing = this.#checkHello(bytes, ended);
    if (passing === 0) return 0;
    if (this.#isFirstTurn) {
      const hasRequest = this.#finder.add(decodeLatin1(bytes.subarray(0, passing)));
      if (hasRequest) throw new MessageFault("an HTTP request");
    }
    this.#sent += passing;
    this.#isTurn = false;
    return passing;
  }

  /** Reads bytes on their way from the server. @returns as {@linkcode client} @throws {MessageFault} */
  server(bytes: Uint8Array, ended: boolean): number {
    if (bytes.length === 0) return 0;
    if (this.#received === 0) {
      const text = decodeLatin1(bytes.subarray(0, ANSWER.length)).toUpperCase();
      if (text === ANSWER) throw new MessageFault("an HTTP response");
      if (ANSWER.startsWith(text) && !ended) return 0;
    }
    if (this.#serverFirst) {
      if (!this.#isAlike("server", bytes, ended)) return 0;
      this.#serverFirst = false;
    }
    this.#received += bytes.length;
    if (this.#sent > 0) this.#isFirstTurn = false;
    else this.#finder.greeted = true;
    this.#isTurn = true;
    return bytes.length;
  }

  /** @returns false while it is undecided @throws {MessageFault} */
  #isAlike(side: "client" | "server", first: Uint8Array, ended: boolean): boolean {
    const { protocol } = this.#options;
    const like = likeness(protocol!, side, first);
    if (like === "no" || like === "more" && (ended || first.length >= KEPT_MAX)) {
      throw new MessageFault(
        `bytes of the ${side} that are not ${protocol}, the protocol that the rule names`,
      );
    }
    return like === "yes";
  }

  /** @returns number of bytes in front of an incomplete ClientHello; all, without one @throws {MessageFault} */
  #checkHello(bytes: Uint8Array, ended: boolean): number {
    const passed = this.#tail.length;
    // Later than that, one stands at the beginning of a turn.
    const isSearched = this.#sent < HELLO_SEARCH_MAX;
    if (!isSearched && !this.#isTurn && passed === 0) return bytes.length;
    const text = passed > 0 ? joinBytes([this.#tail, bytes]) : bytes;
    let tail: Uint8Array = NO_BYTES;
    let next = 1;
    for (let at = 0; at >= 0 && at < text.length; at = isSearched ? text.indexOf(HANDSHAKE, next) : -1) {
      next = at + 1;
      const like = helloLikeness(text, at);
      if (like === "no") continue;
      if (like === "more") {
        tail = text.slice(at);
        break;
      }
      const hello = parseHello(text.subarray(at));
      if (hello) {
        this.#checkName(hello.name);
        next = at + helloLength(text.subarray(at))!;
      } else if (ended) throw new MessageFault("half of a ClientHello");
      else return this.#pass(Math.max(0, at - passed));
    }
    this.#tail = tail;
    return bytes.length;
  }

  /** Lets bytes in front of a ClientHello pass, which is then at the beginning. */
  #pass(count: number): number {
    if (count > 0) this.#tail = NO_BYTES;
    return count;
  }

  #checkName(name: string | undefined): void {
    const { hosts } = this.#options;
    if (name === undefined || hosts.includes(name)) return;
    throw new MessageFault(`TLS for ${name}, and the connection is to ${hosts.join(" or ")}`);
  }
}

/** Beginning of a status line. */
const ANSWER = "HTTP/";

/** Checks whether a ClientHello begins here, by the constant fields of its record. */
function helloLikeness(bytes: Uint8Array, at: number): Likeness {
  const [type, major, minor, high, low, message] = bytes.subarray(at, at + 6);
  if (type !== HANDSHAKE || major !== undefined && major !== 3 || minor > 4 || high > 0x40) return "no";
  if (message === undefined) return "more";
  if (message !== 1) return "no";
  // A record may end within the message's header.
  const length = high << 8 | low;
  if (length < 6) return length === 0 ? "no" : "yes";
  if (bytes.length < at + 11) return "more";
  return bytes[at + 6] === 0 && bytes[at + 9] === 3 && bytes[at + 10] <= 4 ? "yes" : "no";
}
