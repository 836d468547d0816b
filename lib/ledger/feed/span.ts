/** Spans of a session's trace: a program, a request, a model call. */
import { createHash } from "node:crypto";
import type { EventFamily, EventType } from "../../event/mod.ts";
import { conventionsOf, toAttributes } from "../sink/mod.ts";
import type { PartedRecord } from "./record.ts";

/**
 * Most keys, an event's id or a pid, by which programs are remembered; a guest
 * decides how many it starts (§14).
 */
export const PROGRAMS_MAX = 10_000;

/** Kinds and states of spans. */
const INTERNAL = 1;
const CLIENT = 3;
const ERROR = 2;

/** Families whose events have an end of their own, which gives a span its duration. */
const WITH_END: ReadonlySet<EventFamily> = new Set(["http", "dns", "db", "mcp", "model"]);

/** A number of OpenTelemetry as hex: the same for the same name, also after a restart. */
export function idOf(name: string, digits: 16 | 32): string {
  return createHash("sha256").update(name).digest("hex").slice(0, digits);
}

/** A process of a guest, whichever programs it was. */
interface Program {
  spanId: string;
  parentSpanId?: string;
  ppid?: number;
  started: number;
  hasEnded: boolean;
}

/**
 * Span that an event is of; `span` is absent at a start, whose end makes it, and
 * for a request that has not ended.
 */
export interface EventSpan {
  id: string;
  span?: Record<string, unknown>;
}

/**
 * Makes spans in the order of a ledger. Their ids are made of the events' ids, so that sending one twice
 * makes no second one. Starts of programs are kept in memory: after a restart of the service a program that
 * ends has a span without a duration.
 */
export class SpanBuilder {
  readonly #programs = new Map<string, Program>();

  spanOf(record: PartedRecord): EventSpan {
    const { family, common: { event_type }, duration_ms = 0, hasEnded } = record.parts;
    if (event_type === "process.exec" && record.decision !== "block") {
      return { id: this.#begin(record).spanId };
    }
    const isExit = event_type === "process.exit";
    const program = isExit ? this.#end(record) : undefined;
    const id = program?.spanId ?? ownId(record, isExit ? record.parts.common.labels.event_id : undefined);
    if (WITH_END.has(family) && !hasEnded) return { id };
    const parentSpanId = isExit ? program?.parentSpanId : this.#parentOf(record);
    return {
      id,
      span: {
        traceId: idOf(record.session_id, 32),
        spanId: id,
        ...(parentSpanId !== undefined && { parentSpanId }),
        name: nameOf(record),
        kind: WITH_END.has(family) ? CLIENT : INTERNAL,
        startTimeUnixNano: nanoseconds(Math.min(program?.started ?? record.time, record.time)),
        endTimeUnixNano: nanoseconds(record.time + Math.max(0, duration_ms)),
        attributes: attributesOf(record),
        ...(isFailure(record) && { status: { code: ERROR } }),
      },
    };
  }

  #begin(record: PartedRecord): Program {
    const { session_id, event_id, time } = record;
    const { process, labels } = record.parts.common;
    const { pid = 0, ppid } = process ?? {};
    const before = this.#get(session_id, pid);
    // It is sent again; or a guest reports a program that the host started; or
    // a process runs another program.
    let program = this.#get(session_id, event_id) ?? this.#get(session_id, labels.event_id);
    if (!program && before && !before.hasEnded && before.ppid === ppid) program = before;
    if (!program) {
      const parentSpanId = this.#get(session_id, ppid)?.spanId;
      program = {
        spanId: ownId(record),
        ...(parentSpanId !== undefined && { parentSpanId }),
        ...(ppid !== undefined && { ppid }),
        started: time,
        hasEnded: false,
      };
    }
    this.#keep(session_id, event_id, program);
    if (pid > 0) this.#keep(session_id, pid, program);
    return program;
  }

  #end({ session_id, parts: { common: { labels, process } } }: PartedRecord): Program | undefined {
    const program = this.#get(session_id, labels.event_id) ?? this.#get(session_id, process?.pid);
    if (program) program.hasEnded = true;
    return program;
  }

  #parentOf(
    { session_id, event_type, parts: { common: { labels, process } } }: PartedRecord,
  ): string | undefined {
    const pid = event_type === "process.exec" ? process?.ppid : process?.pid;
    return (this.#get(session_id, labels.event_id) ?? this.#get(session_id, pid))?.spanId;
  }

  #get(session: string, key: string | number | undefined): Program | undefined {
    return this.#programs.get(`${session} ${key}`);
  }

  #keep(session: string, key: string | number, program: Program): void {
    this.#programs.delete(`${session} ${key}`);
    this.#programs.set(`${session} ${key}`, program);
    if (this.#programs.size > PROGRAMS_MAX) this.#programs.delete(this.#programs.keys().next().value!);
  }
}

function ownId({ session_id, event_id }: PartedRecord, start = event_id): string {
  return idOf(`${session_id} ${start}`, 16);
}

/** Nanoseconds exceed a safe integer; OTLP's JSON has them as a string. */
function nanoseconds(ms: number): string {
  return `${BigInt(Math.round(ms * 1000)) * 1000n}`;
}

function isFailure({ decision, parts: { subject, error } }: PartedRecord): boolean {
  const { status, exit_code, is_error } = subject;
  return decision === "block" || error !== undefined || Number(status) >= 400 || is_error === true ||
    (exit_code !== undefined && exit_code !== 0);
}

/**
 * Attributes that name a span, by type of event: the operation, and its target
 * only where that has few values.
 */
const NAMES: Partial<Record<EventType, string[]>> = {
  "db.statement": ["db.operation.name", "db.namespace"],
  "http.request": ["http.request.method"],
  "mcp.tool_call": ["mcp.method.name", "gen_ai.tool.name"],
  "model.call": ["gen_ai.operation.name", "gen_ai.request.model"],
  "process.exec": ["process.executable.name"],
  "process.exit": ["process.executable.name"],
};

function nameOf({ parts: { family, common: { event_type }, subject } }: PartedRecord): string {
  const attributes = conventionsOf(family, subject);
  return NAMES[event_type]?.map((key) => attributes[key]).filter(Boolean).join(" ") || event_type;
}

/** Attributes that the log record and the span of an event share. */
export function attributesOf(record: PartedRecord): unknown[] {
  const { family, common, subject, vm_name, rule_id, error } = record.parts;
  return toAttributes({
    "sbx.event.id": common.event_id,
    "sbx.event.type": common.event_type,
    "sbx.event.sequence": common.sequence,
    "sbx.session.id": common.session_id,
    "sbx.vm.id": common.vm_id,
    "sbx.vm.name": vm_name,
    "sbx.profile.id": common.profile_id,
    "sbx.actor": common.actor,
    "sbx.decision": record.decision,
    "sbx.decision.rule.id": rule_id,
    "sbx.error": error,
    // The guest's own trace; it names none of ours.
    "sbx.guest.trace_id": common.trace_id,
    "user.name": common.user_id,
    ...conventionsOf(family, subject, common.process),
    ...Object.fromEntries(Object.entries(subject).map(([key, value]) => [`sbx.subject.${key}`, value])),
  });
}
