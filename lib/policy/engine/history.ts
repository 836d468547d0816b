/**
 * Earlier events of one VM, as far as rules ask for them (docs/design/contracts/05-policy.md §5, "History").
 * Time is the events' own, so that a replay decides as the VM did.
 */
import { createHash } from "node:crypto";
import { type Event, type EventType, familyOf, valueAt } from "../../event/mod.ts";
import { FlatEvent } from "./field.ts";

/** Longest window, in `ms`. */
export const HISTORY_WINDOW_MAX_MS = 24 * 60 * 60_000;
/** Most events, or values, that one counter remembers. */
export const HISTORY_ENTRIES_MAX = 10_000;
/** Most counters of one policy. */
export const HISTORY_COUNTERS_MAX = 64;

/** A rule's question about earlier events; equal ones have one key. */
export interface Counter {
  key: string;
  op: "count" | "sum" | "seen" | "known";
  /** absent: of the family of `field` */
  type?: EventType;
  /** that is summed, seen or known */
  field?: string;
  /** of `known`: whose contacts count */
  scope?: KnownScope;
  windowMs: number;
  /** condition on the earlier event */
  program?: (event: FlatEvent) => unknown;
}

/** Whose contacts make a host known. */
export const KNOWN_SCOPES = ["profile", "organization"] as const;
export type KnownScope = typeof KNOWN_SCOPES[number];

/** Contacts that happened elsewhere. */
export interface KnownHosts {
  /** @throws {Error} it is not known */
  has(scope: KnownScope, field: string, host: string): boolean;
}

/** Label of an event with the answer that its rules got. */
export function knownLabel(scope: KnownScope): string {
  return `known_${scope}`;
}

/**
 * Longest text that is kept as it is; shorter than the digest of a longer one, so
 * that none looks like a digest.
 */
const VALUE_MAX = 64;

/** A value as it is remembered: a guest makes texts of a megabyte. */
function keyOf(value: unknown): unknown {
  if (typeof value !== "string" || value.length <= VALUE_MAX) return value;
  return `sha256:${createHash("sha256").update(value).digest("hex")}`;
}

/** The field whose value grows after the decision, by bodies of unknown length and messages of WebSockets. */
const GROWING = "http.request.bytes";

/** The memory of one counter. */
class Memory {
  /** in order of recording */
  readonly #times: number[] = [];
  readonly #amounts: number[] = [];
  readonly #ids: string[] = [];
  #first = 0;
  /** for sums of bytes: the `bytes` of each event that went out after its decision */
  readonly #streamed = new Map<string, number>();
  /** last event of each value, and the time of the one before */
  readonly #values = new Map<unknown, { at: number; id: string; before: number }>();
  /** until then, something that happened is not remembered */
  #unknownUntil: number;
  /** first contact of each host of this session, and whether the host was known then */
  readonly #contacts = new Map<unknown, { id: string; before: boolean | undefined }>();

  constructor(readonly counter: Counter, unknownUntil: number, readonly known: () => KnownHosts | undefined) {
    this.#unknownUntil = unknownUntil;
  }

  record(event: Event): void {
    const { op, type, field, program } = this.counter;
    const at = event.common.timestamp_unix_ms;
    if (
      type ? event.common.event_type !== type : familyOf(event.common.event_type) !== familyOfPath(field!)
    ) return;
    if (program && !this.#holds(event)) return;
    if (op === "seen") return this.#see(valueAt(event, field!), event);
    if (op === "known") return this.#meet(valueAt(event, field!), event);
    // A clock may go back; what came later counts as long as what came before.
    this.#times.push(Math.max(at, this.#times.at(-1) ?? -Infinity));
    this.#ids.push(event.common.event_id);
    if (op === "sum") this.#amounts.push(Number(valueAt(event, field!) ?? 0));
    if (field === GROWING) this.#streamed.set(event.common.event_id, streamedOf(event));
    if (this.#times.length - this.#first > HISTORY_ENTRIES_MAX) {
      this.#streamed.delete(this.#ids[this.#first]);
      this.#forget(this.#times[this.#first++]);
    }
    // Amortized: the list is cut when half of it is over.
    if (this.#first > HISTORY_ENTRIES_MAX) {
      this.#times.splice(0, this.#first);
      this.#amounts.splice(0, this.#first);
      this.#ids.splice(0, this.#first);
      this.#first = 0;
    }
  }

  /** @param bytes that went out after the decision on an event, as far as it is remembered */
  stream(id: string, bytes: number): void {
    if (this.#streamed.has(id)) this.#streamed.set(id, bytes);
  }

  #see(field: unknown, { common: { event_id: id, timestamp_unix_ms: at } }: Event): void {
    if (field === undefined) return;
    const value = keyOf(field);
    const last = this.#values.get(value);
    this.#values.delete(value);
    this.#values.set(value, { at, id, before: last?.at ?? -Infinity });
    if (this.#values.size <= HISTORY_ENTRIES_MAX) return;
    const [oldest, dropped] = this.#values.entries().next().value!;
    this.#values.delete(oldest);
    this.#forget(dropped.at);
  }

  #meet(field: unknown, event: Event): void {
    const value = keyOf(field);
    // A list of the organization is not made longer by a VM.
    if (value === undefined || this.counter.scope === "organization" || this.#contacts.has(value)) return;
    this.#contacts.set(value, { id: event.common.event_id, before: this.#knownElsewhere(event) });
    // It is in the profile's file by then.
    if (this.#contacts.size > HISTORY_ENTRIES_MAX) this.#contacts.delete(this.#contacts.keys().next().value);
  }

  #isKnown(event: Event): boolean {
    const { field, scope } = this.counter;
    const value = valueAt(event, field!);
    if (value === undefined) return false;
    const own = this.#contacts.get(keyOf(value));
    if (own && own.id !== event.common.event_id) return true;
    const known = own ? own.before : this.#knownElsewhere(event);
    if (known === undefined) throw new Error(`the hosts that the ${scope} knows are not known here`);
    return known;
  }

  /** By others, or in a replay by the label of the event; `undefined` where it is not known. */
  #knownElsewhere(event: Event): boolean | undefined {
    const { field, scope } = this.counter;
    const known = this.known();
    if (!known) {
      const label = event.common.labels?.[knownLabel(scope!)];
      return label === "true" || label === "false" ? label === "true" : undefined;
    }
    try {
      return known.has(scope!, field!, String(valueAt(event, field!)));
    } catch {
      return undefined;
    }
  }

  #forget(at: number): void {
    this.#unknownUntil = Math.max(this.#unknownUntil, at);
  }

  /** Where a condition fails, it is unknown whether the event counts. */
  #holds(event: Event): boolean {
    try {
      return this.counter.program!(new FlatEvent(event)) === true;
    } catch {
      this.#forget(event.common.timestamp_unix_ms);
      return false;
    }
  }

  /** @throws {Error} part of the window is not remembered */
  value(event: Event): bigint | boolean {
    const { op, field, windowMs } = this.counter;
    if (op === "known") return this.#isKnown(event);
    const from = event.common.timestamp_unix_ms - windowMs;
    if (op === "seen") {
      const value = valueAt(event, field!);
      if (value === undefined) return false;
      const last = this.#values.get(keyOf(value));
      const at = last?.id === event.common.event_id ? last.before : last?.at;
      if (at !== undefined && at > from) return true;
    }
    if (this.#unknownUntil > from) {
      throw new Error("the history of this VM is not known for the whole window");
    }
    if (op === "seen") return false;
    let total = 0;
    for (let at = this.#times.length - 1; at >= this.#first && this.#times[at] > from; at--) {
      // An event is evaluated again with its response, and is not part of its own history.
      const id = this.#ids[at];
      if (id === event.common.event_id) continue;
      total += op === "sum" ? this.#amounts[at] + (this.#streamed.get(id) ?? 0) : 1;
    }
    return BigInt(Math.trunc(total));
  }
}

/** `bytes` that went out after the decision, from the end of a recorded event. */
function streamedOf(event: Event & { outcome?: { streamed_bytes?: number } }): number {
  return event.outcome?.streamed_bytes ?? 0;
}

function familyOfPath(path: string): string {
  return path.slice(0, path.indexOf("."));
}

/** Earlier events of one VM that went ahead: allowed, or only observed. */
export class History {
  #memories: Map<string, Memory>;
  /** contacts of others; absent: of a replay, whose events have the answers */
  known?: KnownHosts;

  /** @param unknownUntil unix `ms` until when events may have happened that are not recorded here */
  constructor(counters: Iterable<Counter> = [], unknownUntil = -Infinity) {
    this.#memories = new Map([...counters].map((each) => [each.key, this.#memoryOf(each, unknownUntil)]));
  }

  #memoryOf(counter: Counter, unknownUntil: number): Memory {
    return new Memory(counter, unknownUntil, () => this.known);
  }

  /** Keeps the memory of counters that stay; others know nothing of the time before. */
  use(counters: Iterable<Counter>, unknownUntil: number): void {
    const before = this.#memories;
    this.#memories = new Map(
      [...counters].map((each) => [each.key, before.get(each.key) ?? this.#memoryOf(each, unknownUntil)]),
    );
  }

  /** Records an event that goes ahead. */
  record(event: Event): void {
    for (const memory of this.#memories.values()) memory.record(event);
  }

  /** Counts `bytes` of an event that went out after its decision, all until now. */
  stream({ common }: Event, bytes: number): void {
    for (const memory of this.#memories.values()) memory.stream(common.event_id, bytes);
  }

  /**
   * Labels of an event with the answers that rules get about its host, so that a replay answers the same.
   *
   * @param event before it is recorded here
   */
  labels(event: Event): Record<string, string> {
    const labels: Record<string, string> = {};
    for (const memory of this.#memories.values()) {
      const { op, field, scope } = memory.counter;
      if (op !== "known" || valueAt(event, field!) === undefined) continue;
      try {
        labels[knownLabel(scope!)] = String(memory.value(event));
      } catch {
        // Not known: the event has no such label, and a replay fails as the rule did.
      }
    }
    return labels;
  }

  /** @throws {Error} it is not known */
  value(key: string, event: Event): bigint | boolean {
    const memory = this.#memories.get(key);
    if (!memory) throw new Error("the history of the VM is not known here");
    return memory.value(event);
  }
}

const NO_HISTORY = new History();
let current: { history: History; event: Event } | undefined;

/** Evaluates with a history. Evaluation is synchronous, so one variable is enough. */
export function withHistory<T>(history: History | undefined, event: Event, evaluate: () => T): T {
  const before = current;
  current = { history: history ?? NO_HISTORY, event };
  try {
    return evaluate();
  } finally {
    current = before;
  }
}

/** The value of a counter for the event that is evaluated. @throws {Error} it is not known */
export function historyValue(key: string): bigint | boolean {
  if (!current) throw new Error("the history of the VM is not known here");
  return current.history.value(key, current.event);
}
