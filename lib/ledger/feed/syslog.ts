/** Syslog over TLS: messages of RFC 5424, framed by octet counting (RFC 5425). */
import { timeLimit } from "../../base/time/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { DeliveryError } from "../sink/mod.ts";
import { asciiJson, type FeedRecord } from "./record.ts";
import type { FeedSender } from "./feed.ts";

/** Port of RFC 5425. */
const PORT = 6514;
/** Longest time for one batch, in `ms`, with the receiver's answer to its end. */
const BATCH_MS = timeLimit(20_000);
/** Facility "log audit", and severities. */
const FACILITY = 13;
const [WARNING, INFORMATIONAL] = [4, 6];

/** One message with its length before it. */
export function syslogFrame(record: FeedRecord): Uint8Array {
  const priority = FACILITY * 8 + (record.decision === "block" ? WARNING : INFORMATIONAL);
  const time = new Date(record.time).toISOString();
  const host = record.host.replace(/[^\x21-\x7e]/g, "-").slice(0, 255) || "-";
  const message = `<${priority}>1 ${time} ${host} sbx - ${record.event_type} - ${asciiJson(record.body)}`;
  return new TextEncoder().encode(`${message.length} ${message}`);
}

/**
 * Sends batches, each on a connection of its own: syslog has no receipt, so that only the receiver's end of the connection
 * after ours shows that it has read everything.
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
    const hostname = this.#url.hostname.replace(/^\[|\]$/g, "");
    const port = Number(/:(\d+)$/.exec(this.#url.host)?.[1] ?? (this.#url.port || PORT));
    const name = `${this.#url.hostname}:${port}`;
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(BATCH_MS)]);
    let stop = () => {};
    try {
      const caCerts = this.#caFile === undefined ? undefined : [await Deno.readTextFile(this.#caFile)];
      const tcp = await Deno.connect({ hostname, port, signal: deadline });
      stop = () => tcp.close();
      deadline.addEventListener("abort", stop, { once: true });
      const tls = await Deno.startTls(tcp, { hostname, ...(caCerts && { caCerts }) });
      deadline.removeEventListener("abort", stop);
      stop = () => tls.close();
      deadline.addEventListener("abort", stop, { once: true });
      for (const record of records) {
        const frame = syslogFrame(record);
        for (let at = 0; at < frame.length;) at += await tls.write(frame.subarray(at));
      }
      await tls.closeWrite();
      // A receiver has nothing to say; one that does is no syslog receiver.
      if (await readEnd(tls) !== null) throw new Error("it answers, which syslog does not");
    } catch (error) {
      const reason = deadline.aborted && !signal.aborted
        ? `did not take the messages within ${BATCH_MS / 1000} s`
        : `cannot be reached over TLS: ${asSbxError(error, "sending").message}`;
      throw new DeliveryError(
        `${name} ${reason}` +
          (this.#caFile ? ` (authorities: ${this.#caFile})` : " (authorities: the machine's)"),
      );
    } finally {
      deadline.removeEventListener("abort", stop);
      try {
        stop();
      } catch {
        // Closed by its deadline.
      }
    }
    return 0;
  }
}

/** Reads until the receiver's end. rsyslog ends its connections without close_notify; unread messages would reset them. */
function readEnd(connection: Deno.TlsConn): Promise<number | null> {
  return connection.read(new Uint8Array(1)).catch((error) => {
    if (error instanceof Deno.errors.UnexpectedEof) return null;
    throw error;
  });
}
