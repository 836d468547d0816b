// deno-lint-ignore-file no-control-regex
/**
 * Protocols that a rule can hold a relayed connection to (docs/design/contracts/05-policy.md §5,
 * "Protocols"), by their first bytes.
 */
import type { Protocol } from "../../policy/mod.ts";
import { decodeLatin1 } from "../message/latin1.ts";

/** `more`: undecided until more bytes are received. */
export type Likeness = "yes" | "no" | "more";

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
