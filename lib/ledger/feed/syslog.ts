/** Syslog over TLS: messages of RFC 5424, framed by octet counting (RFC 5425). */
import { timeLimit } from "../../base/time/mod.ts";
import { asSbxError, ignore } from "../../base/error/mod.ts";
import { DeliveryError, tlsProblem } from "../sink/mod.ts";
import { type FeedRecord, joinBytes } from "./record.ts";
import type { FeedSender } from "./feed.ts";

/** Port of RFC 5425. */
const PORT = 6514;
/** Longest time for one batch, in `ms`, with the receiver's answer to its end. */
const BATCH_MS = timeLimit(20_000);
/** Most `bytes` of one write: a receiver that ends the connection is noticed between two. */
const WRITE_MAX = 64 * 1024;
/** Facility "log audit", and severities. */
const FACILITY = 13;
const [WARNING, INFORMATIONAL] = [4, 6];

/** One message with its length before it. */
export function syslogFrame(record: FeedRecord): Uint8Array {
  const priority = FACILITY * 8 + (record.decision === "block" ? WARNING : INFORMATIONAL);
  const time = new Date(record.time).toISOString();
  const host = record.host.replace(/[^\x21-\x7e]/g, "-").slice(0, 255) || "-";
  const header = `<${priority}>1 ${time} ${host} sbx - ${record.event_type} - `;
  return joinBytes([`${header.length + record.json.length} ${header}`, record.json]);
}

/**
 * Sends batches, each on a connection of its own: syslog has no receipt, so that only the receiver's end of
 * the connection after ours shows that it has read everything.
 */
export class SyslogSender implements FeedSender {
  readonly batch = 500;
  readonly #url: URL;
  readonly #caFile?: string;

  constructor(url: string, caFile?: string) {
    // The standard gives other schemes no ports or hosts.
    this.#url = new URL(url.replace(/^tls:/, "https:"));
    this.#caFile = caFile;
  }

  async send(records: readonly FeedRecord[], signal: AbortSignal): Promise<number> {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(BATCH_MS)]);
    try {
      const isClosed = await this.#connected(deadline, (tls) => sendAll(tls, records));
      // A receiver that was killed ends its connections so too. One that takes another connection was not.
      if (!isClosed) await this.#connected(deadline, (tls) => Promise.resolve(tls));
    } catch (error) {
      const name = `${this.#url.hostname}:${this.#port}`;
      const reason = deadline.aborted && !signal.aborted
        ? `did not take the messages within ${BATCH_MS / 1000} s`
        : tlsProblem(error) ?? `cannot be reached over TLS: ${asSbxError(error, "sending").message}`;
      throw new DeliveryError(
        `${name} ${reason}` +
          (this.#caFile ? ` (authorities: ${this.#caFile})` : " (authorities: the machine's)"),
      );
    }
    return 0;
  }

  get #port(): number {
    return Number(/:(\d+)$/.exec(this.#url.host)?.[1] ?? (this.#url.port || PORT));
  }

  /** Runs something with a connection, which is closed then, or at the deadline. */
  async #connected<T>(deadline: AbortSignal, run: (tls: Deno.TlsConn) => Promise<T>): Promise<T> {
    const hostname = this.#url.hostname.replace(/^\[|\]$/g, "");
    const caCerts = this.#caFile === undefined ? undefined : [await Deno.readTextFile(this.#caFile)];
    const tcp = await Deno.connect({ hostname, port: this.#port, signal: deadline });
    let stop = () => tcp.close();
    try {
      deadline.addEventListener("abort", stop, { once: true });
      const tls = await Deno.startTls(tcp, { hostname, ...(caCerts && { caCerts }) });
      deadline.removeEventListener("abort", stop);
      stop = () => tls.close();
      deadline.addEventListener("abort", stop, { once: true });
      await tls.handshake();
      return await run(tls);
    } finally {
      deadline.removeEventListener("abort", stop);
      try {
        stop();
      } catch {
        // Closed by its deadline.
      }
    }
  }
}

/** Writes all messages and our end of the connection. @returns true if the receiver ends it as TLS does */
async function sendAll(tls: Deno.TlsConn, records: readonly FeedRecord[]): Promise<boolean> {
  let hasEnded = false;
  const end = readEnd(tls).finally(() => hasEnded = true);
  end.catch(ignore("awaited below, unless writing fails"));
  const frames = joinBytes(records.map(syslogFrame));
  for (let at = 0; at < frames.length;) at += await tls.write(frames.subarray(at, at + WRITE_MAX));
  if (hasEnded) {
    await end;
    throw new Error("it ended the connection before it had all messages");
  }
  await tls.closeWrite();
  return await end;
}

/**
 * Reads until the receiver's end, which rsyslog makes without close_notify.
 * @returns true for an end with it
 */
async function readEnd(connection: Deno.TlsConn): Promise<boolean> {
  try {
    // A receiver has nothing to say; one that does is no syslog receiver.
    if (await connection.read(new Uint8Array(1)) === null) return true;
    throw new Error("it answers, which syslog does not");
  } catch (error) {
    if (error instanceof Deno.errors.UnexpectedEof) return false;
    throw error;
  }
}
