/** Reads segments and reports from a stream of NATS, which receivers share. */
import type { ConsumerMessages, JsMsg } from "@nats-io/jetstream";
import { joinBytes } from "../../base/bytes/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { pause } from "../../base/time/mod.ts";
import { type NatsAddress, natsError, type NatsLink, openNats, PARTS_HEADER, subjects } from "../nats.ts";
import { SEGMENT_BYTES_MAX } from "../segment/mod.ts";
import { type Pulled, takeReport, takeSegment, type Verdict } from "./take.ts";

/** Name of the cursor that all receivers of a stream share. */
const CURSOR = "sbx_receiver";
/** Messages asked for at once, and `ms` until fewer are an answer too. */
const BATCH = 64;
const BATCH_MS = 2000;
/** Pause in `ms` before the next attempt to reach a server that did not answer. */
const RETRY_MS = 2000;
/**
 * Delay in `ms` before a message that could not be kept comes again; it doubles each time, up to the most.
 */
const REDELIVERY_MS = 2000;
const REDELIVERY_MAX_MS = 16_000;
/** Time in `ms` after which a message without an answer comes again, perhaps to another receiver. */
const ACK_WAIT_MS = 20_000;
/** Messages without an answer, such as ones of machines not enrolled, that hold no others back. */
const UNANSWERED_MAX = 100_000;
/** Deliveries after which a missing segment is reported as a gap: until then another receiver may have it. */
const PATIENCE = 5;
/** How long a stream made by sbx keeps messages, and recognizes duplicates. */
const KEPT_MS = 30 * 86_400_000;
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
        await prepare(link, address);
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
      // It may be open and pass nothing on, which its own pings notice after minutes.
      await link?.connection.close().catch(ignore("it is given up"));
      link = undefined;
      await pause(RETRY_MS, signal);
    }
  }
  await link?.connection.close();
}

/** Makes the stream and its cursor if they are missing. @throws {SbxError} `fleet.stream.invalid` */
async function prepare(link: NatsLink, address: NatsAddress): Promise<void> {
  const library = await import("@nats-io/jetstream");
  const { stream, name } = address;
  try {
    const config = await configOf(link, stream, library);
    if (!config) await makeStream(link, address, library);
    else if (!config.allow_direct || !config.allow_rollup_hdrs) {
      throw new SbxError("fleet.stream.invalid", `the stream ${stream} of ${name} is not one of a fleet`, {
        hint: `it needs allow-direct and allow-rollup; nats stream edit ${stream}`,
      });
    }
    await link.manager.consumers.add(stream, {
      durable_name: CURSOR,
      filter_subject: subjects.received(address),
      ack_policy: library.AckPolicy.Explicit,
      ack_wait: ACK_WAIT_MS * NS_PER_MS,
      max_ack_pending: UNANSWERED_MAX,
    });
  } catch (error) {
    throw error instanceof SbxError ? error : natsError(address, error);
  }
}

type JetStream = typeof import("@nats-io/jetstream");

/** Configuration of a stream; `undefined` if there is none of that name. */
async function configOf({ manager }: NatsLink, stream: string, { JetStreamApiError }: JetStream) {
  try {
    return (await manager.streams.info(stream)).config;
  } catch (error) {
    if (error instanceof JetStreamApiError) return undefined;
    throw error;
  }
}

async function makeStream(
  { manager }: NatsLink,
  address: NatsAddress,
  { DiscardPolicy, RetentionPolicy, StorageType }: JetStream,
): Promise<void> {
  await manager.streams.add({
    name: address.stream,
    subjects: [subjects.all(address)],
    storage: StorageType.File,
    retention: RetentionPolicy.Limits,
    // A full stream refuses, so that the rows stay on the machines: it must not forget old ones.
    discard: DiscardPolicy.New,
    max_age: KEPT_MS * NS_PER_MS,
    duplicate_window: DUPLICATES_MS * NS_PER_MS,
    allow_direct: true,
    allow_rollup_hdrs: true,
  });
}

/** Takes the next messages, and waits until each has its answer. */
async function pullBatch(link: NatsLink, pull: NatsPull): Promise<void> {
  const consumer = await link.stream.consumers.get(pull.address.stream, CURSOR);
  const messages: ConsumerMessages = await consumer.fetch({ max_messages: BATCH, expires: BATCH_MS });
  const stop = () => messages.stop();
  pull.signal.addEventListener("abort", stop, { once: true });
  let kept = 0;
  const handle = async (message: JsMsg) => {
    const verdict = await takeMessage(link, pull, message);
    if (verdict === "done") kept++;
    answer(message, verdict);
  };
  // Segments of one session, which have one subject, follow each other; sessions do not wait for one another.
  const lasts = new Map<string, Promise<void>>();
  try {
    for await (const message of messages) {
      const last = lasts.get(message.subject) ?? Promise.resolve();
      lasts.set(message.subject, last.then(() => handle(message)));
    }
  } finally {
    pull.signal.removeEventListener("abort", stop);
    await Promise.all(lasts.values());
  }
  await link.connection.flush();
  if (kept > 0) pull.onKept?.(kept);
}

/** Answers the server, which delivers the message again after `later` only. */
function answer(message: JsMsg, verdict: Verdict): void {
  switch (verdict) {
    case "done":
      return message.ack();
    case "later":
      return message.nak(redeliveryMs(message.info.deliveryCount));
    case "never":
      return message.term();
  }
}

/** Delay in `ms` before a message comes again. @param deliveries so far, from 1 */
function redeliveryMs(deliveries: number): number {
  return Math.min(REDELIVERY_MS * 2 ** (deliveries - 1), REDELIVERY_MAX_MS);
}

/** Gives a message to the receiver. */
async function takeMessage(link: NatsLink, pull: NatsPull, message: JsMsg): Promise<Verdict> {
  const isReport = message.subject.startsWith(`${pull.address.prefix}.in.report.`);
  if (isReport) return await takeReport(pull, message.data);
  try {
    const bytes = await segmentOf(link, pull.address, message);
    if (!bytes) return "never";
    return await takeSegment(pull, bytes, message.info.deliveryCount < PATIENCE);
  } catch (error) {
    log.warn(`a segment cannot be read: ${natsError(pull.address, error).message}`);
    return "later";
  }
}

/**
 * The segment of a message, joined from the parts that its header names; `undefined`: they make no segment.
 */
async function segmentOf(
  { manager }: NatsLink,
  { stream }: NatsAddress,
  message: JsMsg,
): Promise<Uint8Array | undefined> {
  const sequences = message.headers?.get(PARTS_HEADER);
  if (!sequences) return message.data;
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const text of sequences.split(",")) {
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
