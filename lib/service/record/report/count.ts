/** Sums of a report, each list of a bounded length: guests choose hosts, programs and models. */
import type { Report } from "../../../client/api/mod.ts";
import type { LedgerEvent } from "../../../ledger/read/mod.ts";

/** Rows of one list of a report (docs/design/contracts/14-limits.md §14). */
export const ROWS_MAX = 1000;
/** Longest name of a guest's choice in a row, in characters. */
const NAME_MAX = 256;
/** Row that stands for the ones beyond the limit. */
const OTHERS = "(others)";
const HOUR_MS = 3_600_000;
const HOURS_MAX = 720;

type Left = Report["left"][number];

/** Rows by key; beyond the limit, one row for all others. */
class Rows<T extends object> {
  readonly #rows = new Map<string, T>();
  #others?: T;

  /** @param make makes a row without counts */
  of(key: (string | undefined)[], make: (isOther: boolean) => T): T {
    const id = JSON.stringify(key);
    let row = this.#rows.get(id);
    if (row) return row;
    if (this.#rows.size >= ROWS_MAX) return this.#others ??= make(true);
    this.#rows.set(id, row = make(false));
    return row;
  }

  get isCut(): boolean {
    return this.#others !== undefined;
  }

  list(most: (row: T) => number): T[] {
    const rows = [...this.#rows.values()].toSorted((a, b) => most(b) - most(a));
    return this.#others ? [...rows, this.#others] : rows;
  }
}

/** Counts of a report, one after another. */
export class Counts {
  events = 0;
  readonly #programs = new Rows<Report["programs"][number]>();
  readonly #left = new Rows<Left>();
  readonly #models = new Rows<Report["models"][number]>();
  readonly #secrets = new Rows<Report["secrets"][number]>();
  readonly #refused = new Rows<Report["refused"][number]>();
  readonly #hours = new Map<number, Report["hours"][number]>();
  #hoursCut = false;

  /**
   * @param laterBytes bytes that went out after the decision on this event, such as messages of a WebSocket
   */
  add(event: LedgerEvent, vm: string, laterBytes = 0): void {
    this.events++;
    const isRefused = event.decision === "block";
    this.#addHour(event.common.timestamp_unix_ms, isRefused);
    if (isRefused) {
      const [rule_id, event_type] = [event.rule_id ?? "", event.common.event_type];
      this.#refused.of([vm, rule_id, event_type], (isOther) => ({
        vm: isOther ? OTHERS : vm,
        rule_id: isOther ? OTHERS : rule_id,
        event_type: isOther ? OTHERS : event_type,
        events: 0,
      })).events++;
    }
    this.#addProgram(event, vm, isRefused);
    this.#addLeft(event, vm, laterBytes);
    this.#addModel(event, vm, isRefused);
    this.#addSecret(event, vm);
  }

  report(): Pick<
    Report,
    "events" | "programs" | "left" | "models" | "secrets" | "refused" | "hours" | "cut"
  > {
    const lists = {
      programs: this.#programs,
      left: this.#left,
      models: this.#models,
      secrets: this.#secrets,
      refused: this.#refused,
    };
    return {
      events: this.events,
      programs: this.#programs.list(({ runs }) => runs),
      left: this.#left.list(({ sent_bytes }) => sent_bytes),
      models: this.#models.list(({ cost_micros, calls }) => cost_micros || calls / 1e6),
      secrets: this.#secrets.list(({ uses }) => uses),
      refused: this.#refused.list(({ events }) => events),
      hours: [...this.#hours.values()].toSorted((a, b) => a.at_unix_ms - b.at_unix_ms),
      cut: [
        ...Object.entries(lists).flatMap(([name, rows]) => rows.isCut ? [name] : []),
        ...this.#hoursCut ? ["hours"] : [],
      ],
    };
  }

  #addHour(at: number, isRefused: boolean): void {
    const hour = at - at % HOUR_MS;
    let row = this.#hours.get(hour);
    if (!row) {
      this.#hours.set(hour, row = { at_unix_ms: hour, events: 0, refused: 0 });
      if (this.#hours.size > HOURS_MAX) {
        this.#hours.delete(Math.min(...this.#hours.keys()));
        this.#hoursCut = true;
      }
    }
    row.events++;
    if (isRefused) row.refused++;
  }

  #addProgram({ process }: LedgerEvent, vm: string, isRefused: boolean): void {
    if (process?.activity.operation !== "exec") return;
    const executable = short(process.activity.executable);
    const row = this.#programs.of([vm, executable], (isOther) => ({
      vm: isOther ? OTHERS : vm,
      executable: isOther ? OTHERS : executable,
      runs: 0,
      refused: 0,
    }));
    if (isRefused) row.refused++;
    else row.runs++;
  }

  #addLeft(event: LedgerEvent, vm: string, laterBytes: number): void {
    const out = outOf(event);
    if (!out) return;
    const program = short(event.common.process?.executable ?? "");
    const host = short(out.host);
    const row = this.#left.of([vm, out.kind, host, program], (isOther) => ({
      vm: isOther ? OTHERS : vm,
      kind: out.kind,
      host: isOther ? OTHERS : host,
      program: isOther ? OTHERS : program,
      sent: 0,
      sent_bytes: 0,
      failed: 0,
      failed_bytes: 0,
      refused: 0,
      cached: 0,
      received_bytes: 0,
    }));
    row.received_bytes += out.received;
    if (out.isCached) row.cached++;
    else if (event.decision === "block" || event.decision === "ask" && !out.isAnswered) row.refused++;
    else if (event.outcome?.error !== undefined && !out.isAnswered) {
      row.failed++;
      row.failed_bytes += out.bytes + laterBytes;
    } else {
      row.sent++;
      row.sent_bytes += out.bytes + laterBytes;
    }
  }

  #addModel({ model }: LedgerEvent, vm: string, isRefused: boolean): void {
    if (!model) return;
    const [provider, name] = [short(model.request.provider), short(model.request.model)];
    const row = this.#models.of([vm, provider, name], (isOther) => ({
      vm: isOther ? OTHERS : vm,
      provider: isOther ? OTHERS : provider,
      model: isOther ? OTHERS : name,
      calls: 0,
      refused: 0,
      input_tokens: 0,
      output_tokens: 0,
      cost_micros: 0,
    }));
    if (isRefused) {
      row.refused++;
      return;
    }
    row.calls++;
    row.input_tokens += model.response?.input_tokens ?? 0;
    row.output_tokens += model.response?.output_tokens ?? 0;
    row.cost_micros += model.response?.estimated_cost_micros ?? 0;
  }

  #addSecret({ credential }: LedgerEvent, vm: string): void {
    if (!credential) return;
    const { credential_ref, provider, outcome } = credential.substitution;
    const [host, location] = [credential.substitution.host ?? "", credential.substitution.location ?? ""]
      .map(short);
    this.#secrets.of([vm, credential_ref, host, location, outcome], (isOther) => ({
      vm: isOther ? OTHERS : vm,
      credential_ref: isOther ? OTHERS : credential_ref,
      provider: isOther ? OTHERS : provider,
      host: isOther ? OTHERS : host,
      location: isOther ? OTHERS : location,
      outcome: isOther ? OTHERS : outcome,
      uses: 0,
    })).uses++;
  }
}

interface Out {
  kind: Left["kind"];
  host: string;
  bytes: number;
  received: number;
  isCached?: boolean;
  isAnswered: boolean;
}

/** The bytes that an event sends; `undefined`: none. A model call is an HTTP request too, which counts. */
function outOf({ http, dns, db, mcp, file }: LedgerEvent): Out | undefined {
  if (http) {
    const { request, response } = http;
    return {
      kind: "http",
      host: request.host,
      bytes: request.bytes,
      received: response?.bytes ?? 0,
      isCached: response?.cache_digest !== undefined,
      isAnswered: response !== undefined,
    };
  }
  if (dns) {
    const { qname } = dns.request;
    const isAnswered = dns.response !== undefined;
    return { kind: "dns", host: domainOf(qname), bytes: lengthOf(qname), received: 0, isAnswered };
  }
  if (db) {
    const { request, response } = db;
    return {
      kind: "database",
      host: request.host,
      bytes: request.bytes,
      received: response?.bytes ?? 0,
      isAnswered: response !== undefined,
    };
  }
  if (mcp && mcp.request.method === "tools/call") {
    const bytes = lengthOf(JSON.stringify(mcp.request.arguments ?? {}));
    const isAnswered = mcp.response !== undefined;
    return { kind: "mcp", host: mcp.request.server_name, bytes, received: 0, isAnswered };
  }
  if (file?.activity.operation === "export") {
    return { kind: "export", host: "", bytes: file.activity.byte_count, received: 0, isAnswered: true };
  }
}

/** A thousand rows of a megabyte each would be more than a table can have. */
function short(name: string): string {
  return name.length <= NAME_MAX ? name : `${name.slice(0, NAME_MAX - 1).toWellFormed()}…`;
}

function lengthOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** The last two labels: data carried out in names has as many names as pieces. */
function domainOf(name: string): string {
  return name.split(".").slice(-2).join(".");
}
