/** Shipping by NATS with JetStream. */
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
import { headerOf, Heads, sameHeads, type SegmentHeader } from "../segment/mod.ts";
import type { Authorize } from "./http.ts";
import { type ReportBody, reportOf, slotOf } from "./report.ts";
import type { Position, Receipt, SegmentTarget } from "./target.ts";

/** Bytes of a message that are left to its headers. */
const HEADERS_BYTES = 16 * 1024;
/** JetStream's error: the last message of a subject is not the expected one. */
const WRONG_LAST_SEQUENCE = 10_071;
/** Sessions whose end is remembered. */
const SESSIONS_MAX = 10_000;

type RegisterBody = Extract<ReportBody, { kind: "register" }>;

/** The last segment of a session in the stream. */
interface End {
  to: Position;
  sequence: number;
}

/**
 * A JetStream subject for each session. A segment is stored only behind the last one: the server compares the
 * sequence of the subject's last message, and drops a duplicate (`Nats-Msg-Id`).
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
    return await this.#try(async (link) => {
      for (let isSecond = false;; isSecond = true) {
        const end = await this.#endOf(link, subject);
        if (end && sameHeads(end.to, to)) return { kept: true };
        // Nothing in the stream: it begins here, or it has expired, and the cursor says where it ended.
        if (end && !sameHeads(end.to, from)) return { kept: false, position: end.to };
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
    if (body.kind === "register") return await this.#announce(envelope, machine_id, body);
    await this.#try(async ({ stream }) => {
      const { headers } = await import("@nats-io/transport-node");
      const rollup = headers();
      // The last report of a kind and session counts; the stream keeps that one.
      rollup.set("Nats-Rollup", "sub");
      await stream.publish(subjects.report(this.#address, machine_id, body.kind, slotOf(body)), envelope, {
        headers: rollup,
      });
    });
  }

  /** Puts an entry of a register into the stream, once: a second, different one of its number is refused. */
  async #announce(envelope: string, machineId: string, body: RegisterBody): Promise<void> {
    const { entry } = body;
    const subject = subjects.report(this.#address, machineId, body.kind, slotOf(body));
    await this.#try(async ({ stream, manager }) => {
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

  async #publish(
    { connection, stream }: NatsLink,
    subject: string,
    { machine_id, session_id, to, body }: SegmentHeader,
    segment: Uint8Array<ArrayBuffer>,
    last: number,
  ): Promise<number> {
    const { headers } = await import("@nats-io/transport-node");
    const own = headers();
    own.set(TO_HEADER, JSON.stringify(to));
    const id = blake3([machine_id, session_id, to.events, to.outcomes, to.journal, body.hash].join(" "));
    const size = Math.max((connection.info?.max_payload ?? 0) - HEADERS_BYTES, HEADERS_BYTES);
    let data = segment;
    if (segment.length > size) {
      const parts: number[] = [];
      for (let at = 0; at < segment.length; at += size) {
        const { seq } = await stream.publish(
          subjects.part(this.#address, machine_id),
          segment.subarray(at, at + size),
        );
        parts.push(seq);
      }
      own.set(PARTS_HEADER, parts.join(","));
      data = new Uint8Array();
    }
    const { seq } = await stream.publish(subject, data, {
      msgID: id,
      headers: own,
      expect: { lastSubjectSequence: last },
    });
    return seq;
  }

  /** The last segment of a session, from the stream or from memory. */
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

  async #try<T>(work: (link: NatsLink) => Promise<T>): Promise<T> {
    this.#link ??= openNats(this.#address, this.#authorize).catch((error) => {
      this.#link = undefined;
      throw error;
    });
    const link = await this.#link;
    try {
      return await work(link);
    } catch (error) {
      // One that passes nothing on stays open for minutes, until its own pings notice.
      if ((error as Error).name === "TimeoutError") await link.connection.close();
      // A connection that ended for good, such as after a password was changed.
      if (link.connection.isClosed()) this.#link = undefined;
      throw error instanceof SbxError ? error : natsError(this.#address, error);
    }
  }
}

function codeOf(error: unknown): unknown {
  return (error as { code?: unknown }).code;
}
