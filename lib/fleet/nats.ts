/**
 * NATS with JetStream as the way between machines and a receiver: addresses, subjects and connections
 * (docs/guides/fleet.md).
 */
import type { JetStreamClient, JetStreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/transport-node";
import { SbxError } from "../base/error/mod.ts";
import { plain } from "../base/print/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import { hostNetwork } from "../base/proxy/mod.ts";
import { z } from "zod";
import { isLoopbackHost, shownAddress } from "../base/url/mod.ts";

const PORT = 4222;
/** Prefix of subjects, where the address names none. */
const PREFIX = "sbx.fleet";

/** A subject of a NATS server, below which segments and reports are. */
export interface NatsAddress {
  hostname: string;
  port: number;
  isTls: boolean;
  prefix: string;
  /** stream that has the subjects */
  stream: string;
  /** the address, for messages */
  name: string;
}

/**
 * Parses `nats://HOST[:PORT][/PREFIX]`, or `tls:` instead of `nats:`.
 * @throws {SbxError} `fleet.url.invalid`
 */
export function parseNats(text: string): NatsAddress {
  const [, scheme, rest] = /^(nats|tls):\/\/(.+)$/.exec(text) ?? [];
  // Hosts of unknown schemes are not parsed by URL.
  const url = rest === undefined ? null : URL.parse(`http://${rest}`);
  const prefix = url?.pathname.slice(1) || PREFIX;
  if (
    !url || url.username || url.password || url.search || url.hash ||
    !/^[a-zA-Z0-9_-]{1,64}(\.[a-zA-Z0-9_-]{1,64}){0,7}$/.test(prefix)
  ) {
    throw new SbxError("fleet.url.invalid", `"${shownAddress(text)}" is not the address of a NATS server`, {
      hint:
        "use tls://HOST or nats://127.0.0.1:4222, with a prefix of subjects such as /sbx.fleet if you like",
    });
  }
  // The library compares certificates with names only, and with that of this machine for an address.
  if (scheme === "tls" && /^(\[|[0-9.]+$)/.test(url.hostname) && !url.hostname.startsWith("127.")) {
    throw new SbxError("fleet.url.invalid", `"${shownAddress(text)}" has an address where TLS needs a name`, {
      hint: "use the name that the server's certificate has",
    });
  }
  const port = Number(url.port || PORT);
  return {
    hostname: url.hostname,
    port,
    isTls: scheme === "tls",
    prefix,
    stream: prefix.toUpperCase().replaceAll(".", "_"),
    name: `${scheme}://${url.hostname}:${port}/${prefix}`,
  };
}

/** Refuses to send a credential without TLS, but to this machine. @throws {SbxError} `fleet.url.invalid` */
export function refuseClear({ hostname, isTls, name }: NatsAddress): void {
  if (isTls || isLoopbackHost(hostname)) return;
  throw new SbxError("fleet.url.invalid", `${name} would get its credential without TLS`, {
    hint: `use tls://${hostname}`,
  });
}

/** Subjects: receivers read `in`; `part` carries pieces of segments larger than a message. */
export const subjects = {
  all: ({ prefix }: NatsAddress) => `${prefix}.>`,
  received: ({ prefix }: NatsAddress) => `${prefix}.in.>`,
  segment: ({ prefix }: NatsAddress, machineId: string, sessionId: string) =>
    `${prefix}.in.segment.${machineId}.${sessionId}`,
  report: ({ prefix }: NatsAddress, machineId: string, kind: string, slot: string) =>
    `${prefix}.in.report.${machineId}.${kind}${slot ? `.${slot}` : ""}`,
  part: ({ prefix }: NatsAddress, machineId: string) => `${prefix}.part.${machineId}`,
};

/** Header of a message without data: sequences of the parts of its segment, in order. */
export const PARTS_HEADER = "Sbx-Parts";
/** Header with the heads that a segment ends with, as JSON. */
export const TO_HEADER = "Sbx-To";

/** Makes the `authorization` header for an address. */
type Authorize = (url: URL) => Promise<string>;

/** Longest wait for a connection and for one answer, in `ms`. */
const ANSWER_MS = timeLimit(15_000);

/** Attempts to reconnect, one a second, before giving up; the next call opens a new connection. */
const RECONNECTS_MAX = 10;

/** A connection to a NATS server with JetStream. */
export interface NatsLink {
  connection: NatsConnection;
  stream: JetStreamClient;
  manager: JetStreamManager;
}

/**
 * Connects; the client recovers from short interruptions. The library is loaded here, on first use.
 *
 * @throws {SbxError} `fleet.unavailable`; `fleet.url.invalid`: a credential would go in clear
 */
export async function openNats(address: NatsAddress, authorize?: Authorize): Promise<NatsLink> {
  if (authorize) refuseClear(address);
  const [{ connect }, { jetstream, jetstreamManager }] = await Promise.all([
    import("@nats-io/transport-node"),
    import("@nats-io/jetstream"),
  ]);
  const credential = authorize && await loginOf(address, authorize);
  try {
    await checkGreeting(address, ANSWER_MS);
    const connection = await connect({
      servers: `${address.hostname}:${address.port}`,
      name: "sbx",
      timeout: ANSWER_MS,
      maxReconnectAttempts: RECONNECTS_MAX,
      reconnectTimeWait: 1000,
      // Without TLS a credential goes to this machine only, and to no other server that this one names.
      ignoreClusterUpdates: !address.isTls,
      tls: address.isTls ? { ca: await authorities() } : null,
      ...credential,
    });
    if (address.isTls && !connection.info?.tls_required) {
      await connection.close();
      throw new Error("the server does not ask for TLS");
    }
    const options = { timeout: ANSWER_MS };
    const manager = await jetstreamManager(connection, { ...options, checkAPI: false });
    return { connection, manager, stream: jetstream(connection, options) };
  } catch (cause) {
    throw natsError(address, cause);
  }
}

/** Error of a server that fails a request. */
export function natsError({ name }: NatsAddress, cause: unknown): SbxError {
  return new SbxError("fleet.unavailable", `the collector ${name} does not answer: ${textOf(cause)}`, {
    cause,
    hint: "the rows are kept in the ledgers of this machine, and sent later",
  });
}

function textOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message : String(cause);
  return plain(text.split("\n")[0]).slice(0, 300);
}

/** Certificate authorities: the settings' own beside the usual ones. */
async function authorities(): Promise<string | undefined> {
  const path = (await hostNetwork()).environment().NODE_EXTRA_CA_CERTS;
  return path === undefined ? undefined : await Deno.readTextFile(path);
}

/** User and password, or a token, from the header that other collectors get. */
async function loginOf({ isTls, hostname, port }: NatsAddress, authorize: Authorize) {
  const header = await authorize(new URL(`${isTls ? "https" : "http"}://${hostname}:${port}`));
  const [scheme, value] = header.split(" ");
  if (scheme !== "Basic") return { token: value };
  const [user, ...pass] = new TextDecoder().decode(Uint8Array.fromBase64(value)).split(":");
  return { user, pass: pass.join(":") };
}

/** Longest greeting that is read, in bytes. */
const GREETING_MAX = 64 * 1024;

/** Fields of a greeting that the library reads. */
const Greeting = z.object({
  version: z.string().regex(/\d+\.\d+\.\d+/),
  max_payload: z.number().positive(),
  headers: z.boolean().optional(),
  tls_required: z.boolean().optional(),
  connect_urls: z.array(z.string()).nullish(),
  nonce: z.string().optional(),
});

/**
 * Reads the line that a NATS server sends to each connection, over a separate connection: on an unknown
 * greeting the library prints a trace, and waits until its timeout.
 *
 * @param ms longest wait
 */
async function checkGreeting({ hostname, port }: NatsAddress, ms: number): Promise<void> {
  const connection = await Deno.connect({ hostname: hostname.replace(/^\[|\]$/g, ""), port });
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    connection.close();
  }, ms);
  try {
    const line = await readLine(connection);
    const [, json] = /^INFO\s+(\{.*\})\s*$/i.exec(line) ?? [];
    Greeting.parse(JSON.parse(json));
  } catch (cause) {
    throw new Error(isLate ? "timeout" : "its greeting is not that of a NATS server", { cause });
  } finally {
    clearTimeout(timer);
    if (!isLate) connection.close();
  }
}

async function readLine(connection: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(4096);
  let text = "";
  while (!text.includes("\n") && text.length < GREETING_MAX) {
    const count = await connection.read(buffer);
    if (count === null) break;
    text += decoder.decode(buffer.subarray(0, count), { stream: true });
  }
  return text.split("\r\n")[0];
}
