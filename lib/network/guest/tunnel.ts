// deno-lint-ignore-file no-control-regex
/**
 * Connections relayed without inspection: protocols other than HTTP, and TLS that a rule passes uninspected.
 */
import { asSbxError } from "../../base/error/mod.ts";
import type { Decision, Draft, Passage, Protocol } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { watchForDecoys } from "../exchange/decoy.ts";
import { connectDraft, relayedResponse } from "../exchange/draft.ts";
import type { Flow, Requester } from "../exchange/request.ts";
import { errorText } from "../exchange/response_relay.ts";
import type { DatabaseSystem } from "../interface/mod.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { relay, relayedBytes, type Watch } from "../relay.ts";
import { joinBytes } from "../../base/bytes/mod.ts";
import { HELLO_SEARCH_MAX } from "../limit.ts";
import { decodeLatin1, NO_BYTES } from "../message/bytes.ts";
import { helloLength, parseHello, RequestFinder, sniff } from "./sniff.ts";

/** How a connection of another protocol ended early. */
export interface TunnelEnd {
  /** of a refused connection */
  refused?: Decision;
  /** it was refused before any byte from its server */
  isUnanswered?: boolean;
  /**
   * its client was silent and speaks this after all: the connection is open, and nothing of it was relayed
   */
  speaks?: "http" | "tls";
}

/** Port of a protocol whose server speaks first, and whose client is silent until then. */
const MYSQL_PORT = 3306;

/** The protocol of a client that sbx can answer in its own words; its first bytes are unread. */
export function answerableOf(client: BufferedConnection, port: number): DatabaseSystem | "ssh" | undefined {
  if (client.count === 0) return port === MYSQL_PORT ? "mysql" : undefined;
  const protocol = protocolOf(client.unread);
  return protocol === "postgres" || protocol === "redis" || protocol === "ssh" ? protocol : undefined;
}

export class Tunnel {
  readonly #context: ExchangeContext;

  constructor(context: ExchangeContext) {
    this.#context = context;
  }

  /** Relays a protocol other than HTTP: one event, scheme `tcp`. Inside TLS, the upstream gets TLS too. */
  async relayRaw(client: BufferedConnection, flow: Flow, by: Requester, host: string): Promise<TunnelEnd> {
    client.deadline.off();
    const isSecure = flow.scheme === "https";
    const known = protocolOf(client.unread);
    const protocol = isSecure && (known === undefined || known === "unknown") ? "tls" : known;
    // Drivers of MySQL give up a server that does not greet them.
    const heldMs = answerableOf(client, flow.port) === "mysql" ? this.#context.timeouts.greeting : undefined;
    const passage = await this.#decide(connectDraft(by, "tcp", host, flow.port, protocol), client, heldMs);
    if (!passage.allowed) return { refused: passage.decision, isUnanswered: true };
    const { protocol: held } = passage.decision;
    const watch = new RelayWatch({
      hosts: [host, passage.event.http!.request.host],
      // Inside TLS, any protocol is TLS on its way.
      ...(held !== undefined && !(isSecure && held === "tls") && { protocol: held }),
    });
    return await this.#relay(client, passage, host, flow, by, flow.scheme, watch);
  }

  /** Relays TLS uninspected, for a rule that set the scheme of its event to `tls`. */
  async relayUninspected(
    client: BufferedConnection,
    flow: Flow,
    by: Requester,
    host: string,
  ): Promise<TunnelEnd> {
    client.deadline.off();
    const passage = await this.#decide(connectDraft(by, "https", host, flow.port, "tls"), client);
    if (!passage.allowed) return { refused: passage.decision };
    // The rules may have changed since the preview.
    if (passage.event.http?.request.scheme === "tls") {
      return await this.#relay(client, passage, host, flow, by, "tcp");
    }
    passage.finish({ error: "the rule that passed it uninspected has changed" });
    return {};
  }

  async #decide(draft: Draft, client: BufferedConnection, heldMs?: number): Promise<Passage> {
    const gone = new AbortController();
    if (client.count === 0) client.listen(() => gone.abort());
    return await this.#context.gate.decide(draft, gone.signal, undefined, heldMs);
  }

  /** @param named host of the connection; a rule may have set another */
  async #relay(
    client: BufferedConnection,
    passage: Passage,
    named: string,
    flow: Flow,
    by: Requester,
    scheme: string,
    watch?: RelayWatch,
  ): Promise<TunnelEnd> {
    const { pool, locate, relayMs } = this.#context;
    const { host, port } = passage.event.http!.request;
    const isRedirected = host !== named || port !== flow.port;
    const moved = relayedBytes(passage);
    let error: string | undefined;
    let upstream: BufferedConnection | undefined;
    let address: string | undefined;
    try {
      const { gate, broker } = this.#context;
      const { event_id } = passage.event.common;
      if (watch) watchForDecoys(client, { gate, broker, by, host, location: "connection", event_id });
      const dial = await locate(host, port, isRedirected ? undefined : flow.address, by.actor);
      upstream = await pool.connect({
        scheme: scheme === "https" ? "https" : "tcp",
        host,
        port,
        dial,
      });
      address = dial.hostname;
      await relay(client, upstream, relayMs, moved, watch);
      return {};
    } catch (cause) {
      if (cause instanceof ClientSpoke) {
        error = `${cause.message}, after a silence: its requests are events of their own`;
        return { speaks: cause.protocol };
      }
      if (cause instanceof MessageFault) {
        error = `the connection was cut at ${cause.reason}`;
        return { refused: this.#refuse(passage, by, cause.reason) };
      }
      error = errorText(cause instanceof ConnectionLost ? cause : asSbxError(cause, "relaying a connection"));
      return {};
    } finally {
      upstream?.close();
      passage.finish({
        response: {
          ...relayedResponse(moved.received, address),
          ...(upstream?.noCloseNotify && { no_close_notify: true }),
        },
        ...(error !== undefined && { error }),
      });
    }
  }

  /** Records bytes that were not relayed. */
  #refuse({ event }: Passage, by: Requester, reason: string): Decision {
    const { scheme, host, port } = event.http!.request;
    const draft = connectDraft(by, scheme, host, port);
    const labels = { event_id: event.common.event_id };
    return this.#context.gate.refuse({ ...draft, common: { ...draft.common, labels } }, {
      id: "guard-relay",
      reason: `a connection of another protocol than HTTP has ${reason}`,
      remedy: "connect to that host itself, by its name, in the protocol that the rule allows",
    });
  }
}

// Reads along with a relayed connection: bytes of HTTP, or of TLS for another host, are no other protocol.

/** The first bytes of a client that was silent are HTTP or TLS, and nothing has been relayed. */
export class ClientSpoke extends Error {
  constructor(readonly protocol: "http" | "tls") {
    super(`the client speaks ${protocol.toUpperCase()}`);
  }
}

interface RelayWatchOptions {
  /** hosts that TLS within the connection may name */
  hosts: readonly string[];
  /** protocol that its rule holds it to */
  protocol?: Protocol;
}

/** Most `bytes` of one side that are kept to recognize its protocol. */
const KEPT_MAX = 4096;
const HANDSHAKE = 22;

/**
 * Watches the first turn of each side, whenever it comes, and the beginning of each later turn of the client.
 * The client's first turn ends when the server speaks after it: an HTTP server answers HTTP.
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

  /**
   * @returns number of bytes in front of an incomplete ClientHello; all, without one
   * @throws {MessageFault}
   */
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

// Protocols that a rule can hold a relayed connection to (docs/design/contracts/05-policy.md §5,
// "Protocols"), by their first bytes.

/** `more`: undecided until more bytes are received. */
type Likeness = "yes" | "no" | "more";

/** Most `bytes` at the beginning of one side by which a protocol is recognized. */
const FIRST_MAX = 4096;

/** First bytes of one side: a pattern, and the longest beginning of a text that may still match it. */
interface Beginning {
  is: RegExp;
  /** number of bytes after which a text without a match is another protocol */
  within: number;
  /** the first bytes of the pattern, of which a shorter text has one */
  begins?: RegExp;
  /** its pattern is of one line */
  isLine?: boolean;
}

interface Beginnings {
  client: Beginning;
  server: Beginning;
}

const at = (is: RegExp, within: number, begins?: RegExp): Beginning => ({
  is,
  within,
  ...(begins && { begins }),
});
/** A line of either side, and the words that it begins with. */
const line = (words: string): Beginning => ({
  ...at(new RegExp(`^(?:${words})[ \\t\\r\\n]`, "i"), 16),
  isLine: true,
});

const NOTHING = at(/(?!)/, 0);

const BEGINNINGS: Readonly<Record<Protocol, Beginnings>> = {
  amqp: { client: at(/^AMQP[\0-\x03]/, 5, /^A/), server: at(/^(?:AMQP|\x01\0\0)/, 4) },
  git: {
    client: at(/^[0-9a-f]{4}git-(?:upload-pack|receive-pack|upload-archive) /, 24, /^[0-9a-f]{1,4}(?:g|$)/),
    server: at(/^[0-9a-f]{4}/, 4),
  },
  imap: {
    client: {
      ...at(/^[A-Za-z0-9.]+ (?:AUTHENTICATE|CAPABILITY|ENABLE|ID|LOGIN|LOGOUT|NOOP|STARTTLS)[ \r\n]/i, 40),
      isLine: true,
    },
    server: line("\\* (?:OK|PREAUTH|BYE)"),
  },
  // BER: a sequence of an id and an operation; its length in one byte, or in the next one to four.
  ldap: {
    client: at(
      /^0(?:[\0-\x7f]|\x81.|\x82..|\x83...|\x84....)\x02(?:\x01.|\x02..|\x03...|\x04....)[BJP`cfhlnw]/s,
      13,
      /^0/,
    ),
    server: at(
      /^0(?:[\0-\x7f]|\x81.|\x82..|\x83...|\x84....)\x02(?:\x01.|\x02..|\x03...|\x04....)[a-y]/s,
      13,
    ),
  },
  mongodb: {
    client: at(/^.{2}[\0-\x02]\0.{4}\0{4}[\xd4\xdc\xdd]\x07\0\0/s, 16, /^.{1,2}$|^..[\0-\x02](?:\0|$)/s),
    server: at(/^.{3}[\0-\x03].{8}(?:\x01\0|[\xdc\xdd]\x07)\0\0/s, 16),
  },
  mqtt: {
    client: at(/^\x10[\x80-\xff]{0,3}[\0-\x7f]\0(?:\x04MQTT|\x06MQIsdp)/s, 13, /^\x10/),
    server: at(/^\x20[\x02-\x7f]/, 2),
  },
  mysql: { client: at(/^..[\0-\x01]\x01/s, 4), server: at(/^..\0\0[\x09\x0a\xff]/s, 5) },
  nats: { client: at(/^(?:CONNECT \{|PING\r?\n)/, 10, /^[CP]/), server: line("INFO") },
  pop3: { client: line("APOP|AUTH|CAPA|NOOP|QUIT|STLS|USER"), server: line("\\+OK|-ERR") },
  postgres: {
    client: at(/^\0\0..(?:\0\x03\0[\0-\x02]|\x04\xd2\x16[\x2e-\x30])/s, 8, /^\0/),
    server: at(/^(?:[NSG]|[ERv]\0)/, 2),
  },
  redis: { client: at(/^\*[1-9][0-9]{0,5}\r\n\$[0-9]/, 12, /^\*/), server: at(/^[+\-:$*%_,(]/, 1) },
  smtp: { client: line("EHLO|HELO|LHLO|HELP|NOOP|QUIT|RSET"), server: at(/^(?:220|421|521|554)[ \-\r]/, 4) },
  // A server may send lines of its own before its version (RFC 4253 §4.2).
  ssh: { client: at(/^SSH-(?:2\.0|1\.99)-/, 9, /^S/), server: at(/^(?:[^\n]*\n)*SSH-/, FIRST_MAX) },
  // The TLS of a guest ends here, also where it comes late: no handshake is among the bytes of a relay.
  tls: { client: NOTHING, server: NOTHING },
};

/** Compares the first bytes of one side with a protocol's. */
export function likeness(protocol: Protocol, side: keyof Beginnings, first: Uint8Array): Likeness {
  const beginning = BEGINNINGS[protocol][side];
  const text = decodeLatin1(first.subarray(0, FIRST_MAX));
  if (beginning.is.test(text)) return "yes";
  if (beginning.isLine && text.includes("\n")) return "no";
  if (text !== "" && beginning.begins?.test(text) === false) return "no";
  return text.length < beginning.within ? "more" : "no";
}

/**
 * Names the protocol of a client by its first bytes.
 *
 * @returns `undefined` while nothing is known, `unknown` for a protocol that rules cannot name
 */
export function protocolOf(first: Uint8Array): Protocol | "unknown" | undefined {
  if (first.length === 0) return undefined;
  const known = (Object.keys(BEGINNINGS) as Protocol[]).map((name) =>
    [name, likeness(name, "client", first)] as const
  );
  const found = known.find(([, like]) => like === "yes")?.[0];
  return found ?? (known.some(([, like]) => like === "more") ? undefined : "unknown");
}
