/**
 * Ships a machine's segments and reports through a JetStream stream of NATS, from which a receiver pulls them
 * (lib/fleet/pull).
 */
import { blake3 } from "../../base/hash/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import {
  type NatsAddress,
  natsError,
  type NatsLink,
  openNats,
  parseNats,
  PARTS_HEADER,
  refuseClear,
  subjects,
  TO_HEADER,
} from "../nats.ts";
import { entryHash } from "../register/mod.ts";
import { sameHeads } from "../../ledger/mod.ts";
import { headerOf, Heads, type SegmentHeader } from "../segment/mod.ts";
import type { Authorize } from "./http.ts";
import { type ReportBody, reportOf, slotOf } from "./report.ts";
import type { Position, Receipt, SegmentTarget } from "./target.ts";

/** Room for the headers of a message, in `bytes`. */
const HEADERS_BYTES = 16 * 1024;
/** JetStream's error: the last message of a subject is not the expected one. */
const WRONG_LAST_SEQUENCE = 10_071;
/** Most sessions whose last segment is remembered. */
const SESSIONS_MAX = 10_000;

type RegisterBody = Extract<ReportBody, { kind: "register" }>;

/** The last segment of a session in the stream. */
interface End {
  to: Position;
  sequence: number;
}

/**
 * The stream as a collector, with a subject for each session. A segment is stored only directly behind the
 * previous one: the server compares the sequence of the subject's last message, and drops duplicates
 * (`Nats-Msg-Id`).
 */
export class NatsTarget implements SegmentTarget {
  readonly name: string;
  readonly #address: NatsAddress;
  readonly #authorize?: Authorize;
  readonly #ends = new Map<string, End>();
  #link?: Promise<NatsLink>;

  constructor(url: string, authorize?: Authorize) {
    this.#address = parseNats(url);
    if (authorize) refuseClear(this.#address);
    this.name = this.#address.name;
    this.#authorize = authorize;
  }

  async send(segment: Uint8Array<ArrayBuffer>): Promise<Receipt> {
    const header = headerOf(segment);
    const { machine_id, session_id, from, to } = header;
    const subject = subjects.segment(this.#address, machine_id, session_id);
    return await this.#withLink(async (link) => {
      // The remembered end may be out of date; the second attempt reads it from the stream.
      for (let isSecond = false;; isSecond = true) {
        const end = await this.#endOf(link, subject);
        if (end && sameHeads(end.to, to)) return { kept: true };
        if (end && !sameHeads(end.to, from)) return { kept: false, position: end.to };
        // Without an end, the session is new, or its messages have expired: the shipper knows its position.
        try {
          const sequence = await this.#publish(link, subject, header, segment, end?.sequence ?? 0);
          this.#remember(subject, { to, sequence });
          return { kept: true };
        } catch (error) {
          this.#ends.delete(subject);
          if (isSecond || codeOf(error) !== WRONG_LAST_SEQUENCE) throw error;
        }
      }
    });
  }

  async report(envelope: string): Promise<void> {
    const { machine_id, body } = reportOf(envelope);
    if (body.kind === "register") return await this.#publishEntry(envelope, machine_id, body);
    await this.#withLink(async ({ stream }) => {
      const { headers } = await import("@nats-io/transport-node");
      const rollup = headers();
      // Only the last report of a kind and session matters; the stream drops the others.
      rollup.set("Nats-Rollup", "sub");
      await stream.publish(subjects.report(this.#address, machine_id, body.kind, slotOf(body)), envelope, {
        headers: rollup,
      });
    });
  }

  /** Publishes a register entry once. @throws {SbxError} `fleet.refused`: its number has another entry */
  async #publishEntry(envelope: string, machineId: string, body: RegisterBody): Promise<void> {
    const { entry } = body;
    const subject = subjects.report(this.#address, machineId, body.kind, slotOf(body));
    await this.#withLink(async ({ stream, manager }) => {
      try {
        await stream.publish(subject, envelope, { expect: { lastSubjectSequence: 0 } });
      } catch (error) {
        if (codeOf(error) !== WRONG_LAST_SEQUENCE) throw error;
        const kept = await manager.direct.getMessage(this.#address.stream, { last_by_subj: subject });
        const before = kept && reportOf(kept.string()).body;
        if (before?.kind === "register" && entryHash(before.entry) === entryHash(entry)) return;
        throw new SbxError(
          "fleet.refused",
          `the stream ${this.name} has another entry ${entry.number} of this machine's register of sessions`,
          { hint: "the register was rewritten, or restored from a backup: sbx sessions verify checks it" },
        );
      }
    });
  }

  async close(): Promise<void> {
    const link = this.#link;
    this.#link = undefined;
    await (await link?.catch(() => undefined))?.connection.close();
  }

  /**
   * Publishes a segment; one that is larger than a message goes ahead of it in parts, which its own message
   * names.
   *
   * @param last sequence of the subject's last message, 0 for none
   * @returns the sequence of the segment's message
   */
  async #publish(
    link: NatsLink,
    subject: string,
    { machine_id, session_id, to, body }: SegmentHeader,
    segment: Uint8Array<ArrayBuffer>,
    last: number,
  ): Promise<number> {
    const { headers } = await import("@nats-io/transport-node");
    const head = headers();
    head.set(TO_HEADER, JSON.stringify(to));
    const size = Math.max((link.connection.info?.max_payload ?? 0) - HEADERS_BYTES, HEADERS_BYTES);
    const isInParts = segment.length > size;
    if (isInParts) {
      const sequences = await this.#publishParts(link, machine_id, segment, size);
      head.set(PARTS_HEADER, sequences.join(","));
    }
    const { seq } = await link.stream.publish(subject, isInParts ? new Uint8Array() : segment, {
      msgID: blake3([machine_id, session_id, to.events, to.outcomes, to.journal, body.hash].join(" ")),
      headers: head,
      expect: { lastSubjectSequence: last },
    });
    return seq;
  }

  async #publishParts(
    { stream }: NatsLink,
    machineId: string,
    segment: Uint8Array<ArrayBuffer>,
    size: number,
  ): Promise<number[]> {
    const sequences: number[] = [];
    for (let at = 0; at < segment.length; at += size) {
      const part = segment.subarray(at, at + size);
      const { seq } = await stream.publish(subjects.part(this.#address, machineId), part);
      sequences.push(seq);
    }
    return sequences;
  }

  /** The last segment of a session, from memory or from the stream. */
  async #endOf({ manager }: NatsLink, subject: string): Promise<End | undefined> {
    const known = this.#ends.get(subject);
    if (known) return known;
    const message = await manager.direct.getMessage(this.#address.stream, { last_by_subj: subject });
    if (!message) return undefined;
    const end = { to: Heads.parse(JSON.parse(message.header.get(TO_HEADER))), sequence: message.seq };
    this.#remember(subject, end);
    return end;
  }

  #remember(subject: string, end: End): void {
    this.#ends.delete(subject);
    this.#ends.set(subject, end);
    if (this.#ends.size > SESSIONS_MAX) this.#ends.delete(this.#ends.keys().next().value!);
  }

  /** Runs work over the open connection, or a new one. @throws {SbxError} any failure, in words */
  async #withLink<T>(work: (link: NatsLink) => Promise<T>): Promise<T> {
    this.#link ??= openNats(this.#address, this.#authorize).catch((error) => {
      this.#link = undefined;
      throw error;
    });
    const link = await this.#link;
    try {
      return await work(link);
    } catch (error) {
      // Its own pings would notice a dead connection only after minutes.
      if ((error as Error).name === "TimeoutError") await link.connection.close();
      // The client does not reconnect after some failures, such as a changed password.
      if (link.connection.isClosed()) this.#link = undefined;
      throw error instanceof SbxError ? error : natsError(this.#address, error);
    }
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}
