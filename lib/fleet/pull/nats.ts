/** Reading segments and reports from NATS with JetStream. */
import type { ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { pause } from "../../base/time/mod.ts";
import { type NatsAddress, natsError, type NatsLink, openNats, PARTS_HEADER, subjects } from "../nats.ts";
import { SEGMENT_BYTES_MAX } from "../segment/mod.ts";
import { type Pulled, takeReport, takeSegment, type Verdict } from "./take.ts";

/** Name of the cursor that all receivers of a stream share. */
const CONSUMER = "sbx_receiver";
/** Messages asked for at once, and `ms` until an empty answer. */
const BATCH = 64;
const BATCH_MS = 2000;
/** Delay in `ms` before redelivery of a message that could not be kept and got no answer. */
const AGAIN_MS = 2000;
const AGAIN_MAX_MS = 16_000;
/** Messages that may wait, such as ones from unenrolled machines, before they hold others back. */
const WAITING_MAX = 100_000;
const ACK_MS = 20_000;
/** Deliveries after which a missing segment is reported as a gap: until then another receiver may have it. */
const PATIENCE = 5;
/** Days that a stream made by sbx keeps messages, and `ms` in which it recognizes duplicates. */
const AGE_DAYS = 30;
const DUPLICATES_MS = 120_000;
const NS_PER_MS = 1_000_000;

/** Options for reading a stream. */
export interface NatsPull extends Pulled {
  address: NatsAddress;
  authorize?: ((url: URL) => Promise<string>) | undefined;
  signal: AbortSignal;
  /** called after each batch with the messages of it that were kept */
  onKept?(messages: number): void;
}

/**
 * Reads segments and reports from JetStream until aborted. Several receivers share one durable cursor: a
 * message is acknowledged once kept, and redelivered otherwise.
 *
 * @throws {SbxError} `fleet.stream.invalid`
 */
export async function pullNats(pull: NatsPull): Promise<void> {
  const { address, authorize, signal } = pull;
  let link: NatsLink | undefined;
  let problem = "";
  while (!signal.aborted) {
    try {
      if (!link || link.connection.isClosed()) {
        link = await openNats(address, authorize);
        await ensureStream(link, address);
      }
      await pullBatch(link, pull);
      problem = "";
    } catch (cause) {
      if (signal.aborted) break;
      const error = cause instanceof SbxError ? cause : natsError(address, cause);
      if (error.code !== "fleet.unavailable") {
        await link?.connection.close();
        throw error;
      }
      if (error.message !== problem) log.warn(`${error.message}; trying again`);
      problem = error.message;
      await pause(AGAIN_MS, signal);
    }
  }
  await link?.connection.close();
}

/** Makes the stream and its cursor if they are missing. */
async function ensureStream({ manager }: NatsLink, address: NatsAddress): Promise<void> {
  const { AckPolicy, DiscardPolicy, JetStreamApiError, RetentionPolicy, StorageType } = await import(
    "@nats-io/jetstream"
  );
  const { stream } = address;
  const info = await manager.streams.info(stream).catch((error) => {
    if (error instanceof JetStreamApiError) return undefined;
    throw natsError(address, error);
  });
  if (info && !(info.config.allow_direct && info.config.allow_rollup_hdrs)) {
    throw new SbxError(
      "fleet.stream.invalid",
      `the stream ${stream} of ${address.name} is not one of a fleet`,
      {
        hint: `it needs allow-direct and allow-rollup; nats stream edit ${stream}`,
      },
    );
  }
  try {
    if (!info) {
      await manager.streams.add({
        name: stream,
        subjects: [subjects.all(address)],
        storage: StorageType.File,
        retention: RetentionPolicy.Limits,
        // A full stream refuses, so that the rows stay on the machines: it must not forget old ones.
        discard: DiscardPolicy.New,
        max_age: AGE_DAYS * 86_400_000 * NS_PER_MS,
        duplicate_window: DUPLICATES_MS * NS_PER_MS,
        allow_direct: true,
        allow_rollup_hdrs: true,
      });
    }
    await manager.consumers.add(stream, {
      durable_name: CONSUMER,
      filter_subject: subjects.received(address),
      ack_policy: AckPolicy.Explicit,
      ack_wait: ACK_MS * NS_PER_MS,
      max_ack_pending: WAITING_MAX,
    });
  } catch (error) {
    throw natsError(address, error);
  }
}

async function pullBatch(link: NatsLink, pull: NatsPull): Promise<void> {
  const consumer = await link.stream.consumers.get(pull.address.stream, CONSUMER);
  const messages: ConsumerMessages = await consumer.fetch({ max_messages: BATCH, expires: BATCH_MS });
  const stop = () => messages.stop();
  pull.signal.addEventListener("abort", stop, { once: true });
  // Segments of one session follow each other; sessions do not wait for one another.
  const turns = new Map<string, Promise<void>>();
  let kept = 0;
  try {
    for await (const message of messages) {
      const before = turns.get(message.subject) ?? Promise.resolve();
      turns.set(
        message.subject,
        before.then(async () => {
          const verdict = await takeMessage(link, pull, message);
          if (verdict === "done") {
            kept++;
            message.ack();
          } else if (verdict === "later") message.nak(againMs(message.info.deliveryCount));
          else message.term();
        }),
      );
    }
  } finally {
    pull.signal.removeEventListener("abort", stop);
    await Promise.all(turns.values());
  }
  await link.connection.flush();
  if (kept > 0) pull.onKept?.(kept);
}

/** Delay in `ms` before redelivery, growing with the number of deliveries. */
function againMs(deliveries: number): number {
  return Math.min(AGAIN_MS * 2 ** (deliveries - 1), AGAIN_MAX_MS);
}

async function takeMessage(link: NatsLink, pull: NatsPull, message: JsMsg): Promise<Verdict> {
  const isReport = message.subject.startsWith(`${pull.address.prefix}.in.report.`);
  if (isReport) return await takeReport(pull, message.data);
  try {
    const bytes = await bytesOf(link, pull.address, message);
    if (!bytes) return "never";
    return await takeSegment(pull, bytes, message.info.deliveryCount < PATIENCE);
  } catch (error) {
    log.warn(`a segment cannot be read: ${natsError(pull.address, error).message}`);
    return "later";
  }
}

/** A segment as sent, joined from its parts; `undefined`: not a segment. */
async function bytesOf(
  { manager }: NatsLink,
  { stream }: NatsAddress,
  message: JsMsg,
): Promise<Uint8Array | undefined> {
  const named = message.headers?.get(PARTS_HEADER);
  if (!named) return message.data;
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const text of named.split(",")) {
    const seq = Number(text);
    if (!Number.isSafeInteger(seq) || seq < 1) return undefined;
    const part = await manager.direct.getMessage(stream, { seq });
    if (!part) return undefined;
    length += part.data.length;
    if (length > SEGMENT_BYTES_MAX) return undefined;
    parts.push(part.data);
  }
  return joinBytes(parts);
}
