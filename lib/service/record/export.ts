/**
 * Export of findings to the sinks (docs/design/contracts/06-detection.md §6, "Sinks"). They are read from the
 * ledgers, so none is lost while no service runs.
 */
import { join } from "node:path";
import { asSbxError, ifFound } from "../../base/error/mod.ts";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { count } from "../../base/text/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { CorpStore } from "../../config/corp/mod.ts";
import type { DetectionFinding, Severity } from "../../detection/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type {
  Endpoint,
  FindingSinks,
  RecordContext,
  SinkStatus,
  WebhookOptions,
} from "../../ledger/sink/mod.ts";
import { type SinkAuth, sinkAuthorization } from "../../credential/mod.ts";
import { factsOf, FindingExceptions } from "./exceptions.ts";
import { makerOf } from "./ledger.ts";
import type { Sessions } from "./sessions.ts";

/** Findings read from a ledger at once. */
const BATCH = 500;
/** Wait for further findings of a session before its ledger is read, in `ms`. */
const GATHER_MS = 200;

/** Findings of a session whose answers are awaited; beyond them, the oldest get no update. */
const UNANSWERED_MAX = 100;

/** How far the findings of a ledger are exported. */
interface Mark {
  /** last row that went out */
  after: number;
  /** rows that went out while their events waited for a person */
  unanswered: number[];
}

/** Reads a mark; an older sbx wrote the number alone. One that cannot be read sends everything again. */
function parseMark(text: string): Mark {
  try {
    const mark = JSON.parse(text);
    if (typeof mark === "number") return { after: mark, unanswered: [] };
    return { after: Number(mark.after) || 0, unanswered: [mark.unanswered ?? []].flat().map(Number) };
  } catch {
    return { after: 0, unanswered: [] };
  }
}

/** A sink as the configuration names it. */
interface Target {
  endpoint: string;
  auth?: SinkAuth;
}

interface Targets {
  http?: Target;
  otlp?: Target;
  webhook?: WebhookOptions;
}

/** Reads findings from ledgers and sends them to the sinks. A file beside each ledger has the position. */
export class FindingExport {
  readonly #home: Home;
  readonly #settings: SettingsStore;
  readonly #corp: CorpStore;
  readonly #sessions: Pick<Sessions, "get">;
  #sinks?: FindingSinks;
  /** options of the open sinks, as JSON */
  #sinkOptions = "";
  /** reason why the last export failed */
  #problem?: string;
  readonly #exceptions: FindingExceptions;
  readonly #waiting = new Set<string>();
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home, settings: SettingsStore, corp: CorpStore, sessions: Pick<Sessions, "get">) {
    this.#home = home;
    this.#settings = settings;
    this.#corp = corp;
    this.#sessions = sessions;
    this.#exceptions = new FindingExceptions(home);
  }

  /** Opens the sinks and queues every session: there may be findings from the time when no service ran. */
  async begin(): Promise<void> {
    this.reconfigure();
    for await (const { name } of Deno.readDir(join(this.#home.dir, "ledgers"))) this.#queue(name);
  }

  /** Queues a session that has a new finding. */
  queueSession(sessionId: string): void {
    if (this.#waiting.has(sessionId)) return;
    this.#waiting.add(sessionId);
    backgroundTimeout(() => this.#queue(sessionId), GATHER_MS);
  }

  /** Sends findings again, with the state that a person gave them. */
  sendStates(sessionId: string, ids: readonly string[]): void {
    this.#inTurn(async () => {
      const { ledger } = sessionPaths(this.#home, sessionId);
      const [{ readFindingRowsOf }, { decisionOf }, { readStates }] = await Promise.all([
        import("../../ledger/read/mod.ts"),
        import("./decided.ts"),
        import("./triage.ts"),
      ]);
      const [rows, states] = await Promise.all([readFindingRowsOf(ledger, ids), readStates(ledger)]);
      const sinks = await this.#openSinks();
      const entry = await this.#sessions.get(sessionId).catch(() => undefined);
      const made_by = makerOf(entry);
      for (const row of rows) {
        const state = states.get(row.finding.finding_id)?.at(-1);
        sinks.send(row.finding as DetectionFinding, row.event, {
          decision: await decisionOf(ledger, row),
          is_update: true,
          ...(entry && { vm_name: entry.name }),
          ...(made_by && { made_by }),
          ...(state && { state }),
        });
      }
    });
  }

  /** Activates the sinks that corp and the settings name. Without any, they open with the first finding. */
  reconfigure(): void {
    this.#inTurn(async () => {
      if (this.#sinks || Object.keys(this.#targets()).length > 0) await this.#openSinks();
    });
  }

  /** The sinks that are open. */
  status(): SinkStatus[] {
    return this.#sinks?.status() ?? [];
  }

  /** Sinks that findings wait for, and findings that were lost, each as one line. */
  problems(): string[] {
    return [...this.status().flatMap(sinkProblems), ...this.#problem === undefined ? [] : [this.#problem]];
  }

  async close(): Promise<void> {
    await this.#tail;
    const open = this.#sinks;
    this.#sinks = undefined;
    await open?.close();
  }

  #queue(sessionId: string): void {
    this.#inTurn(async () => {
      this.#waiting.delete(sessionId);
      await this.#send(sessionId);
    });
  }

  #inTurn(work: () => Promise<void>): void {
    this.#tail = this.#tail.then(async () => {
      try {
        await work();
        this.#problem = undefined;
      } catch (error) {
        const problem = `findings are not exported: ${(error as Error).message}`;
        if (problem !== this.#problem) log.warn(problem);
        this.#problem = problem;
      }
    });
  }

  async #send(sessionId: string): Promise<void> {
    const { ledger } = sessionPaths(this.#home, sessionId);
    // A VM that never booted leaves a folder without a record.
    if (!await Deno.lstat(ledger).then(() => true, () => false)) return;
    const mark = `${ledger}.exported`;
    const { readFindingRows } = await import("../../ledger/read/mod.ts");
    const { decisionOf } = await import("./decided.ts");
    const text = await ifFound(Deno.readTextFile(mark)).catch((error) => {
      // Without it, every finding of the record would go out again.
      throw asSbxError(error, `reading ${mark}`);
    });
    let { after, unanswered } = parseMark(text ?? "0");
    const context = async (): Promise<RecordContext> => {
      // A finding goes out also when the index cannot be read.
      const entry = await this.#sessions.get(sessionId).catch(() => undefined);
      const made_by = makerOf(entry);
      return { ...(entry && { vm_name: entry.name }), ...(made_by && { made_by }) };
    };
    const exceptionOf = await this.#exceptions.finder();
    const answered: number[] = [];
    for (const number of unanswered) {
      const [row] = await readFindingRows(ledger, number - 1, 1);
      const decision = row && await decisionOf(ledger, row);
      if (decision?.outcome === "ask") continue;
      answered.push(number);
      if (row?.row !== number) continue;
      const terms = { ...await context(), decision, is_update: true } as const;
      (await this.#openSinks()).send(row.finding as DetectionFinding, row.event, terms);
    }
    if (answered.length > 0) {
      unanswered = unanswered.filter((number) => !answered.includes(number));
      await writeAtomic(mark, JSON.stringify({ after, unanswered }));
    }
    for (let more = true; more;) {
      const rows = await readFindingRows(ledger, after, BATCH);
      if (rows.length === 0) return;
      const sinks = await this.#openSinks();
      const terms = await context();
      for (const row of rows) {
        const decision = await decisionOf(ledger, row);
        if (decision.outcome === "ask") unanswered = [...unanswered, row.row].slice(-UNANSWERED_MAX);
        const finding = row.finding as DetectionFinding;
        const exception = exceptionOf(factsOf(finding, row.event, terms.vm_name))?.id;
        sinks.send(finding, row.event, { ...terms, decision, ...(exception && { exception }) });
      }
      after = rows.at(-1)!.row;
      await writeAtomic(mark, JSON.stringify({ after, unanswered }));
      more = rows.length === BATCH;
    }
  }

  /** Addresses of the active sinks. */
  #targets(): Targets {
    const { state } = this.#corp;
    const corp = "config" in state ? state.config.file.corp_rule_files : {};
    const http = targetOf(
      corp.sigma_output_endpoint,
      corp.sigma_output_credential_ref,
      corp.sigma_output_user,
    );
    const otlp =
      targetOf(corp.open_telemetry, corp.open_telemetry_credential_ref, corp.open_telemetry_user) ??
        this.#ownCollector();
    const webhook = this.#webhook();
    return { ...(http && { http }), ...(otlp && { otlp }), ...(webhook && { webhook }) };
  }

  #webhook(): WebhookOptions | undefined {
    const file = this.#settings.inForce("alerts.webhook_file");
    if (!file) return undefined;
    const form = (this.#settings.inForce("alerts.webhook_form") ?? "json") as WebhookOptions["form"];
    return { file: String(file), form, severity: alertSeverity(this.#settings) };
  }

  /** The collector of the settings, which counts only while its setting is switched on. */
  #ownCollector(): Target | undefined {
    const setting = (id: string) => this.#settings.inForce(id);
    if (setting("telemetry.enabled") !== true) return undefined;
    return targetOf(
      setting("telemetry.endpoint"),
      setting("telemetry.credential_ref"),
      setting("telemetry.user"),
    );
  }

  async #openSinks(): Promise<FindingSinks> {
    const targets = this.#targets();
    const optionText = JSON.stringify(targets);
    if (this.#sinks && optionText === this.#sinkOptions) return this.#sinks;
    const open = this.#sinks;
    this.#sinks = undefined;
    // At once: waiting findings must not go to a sink that is no longer named.
    await open?.close(0);
    const { FindingSinks } = await import("../../ledger/sink/mod.ts");
    this.#sinks = await FindingSinks.open({
      dir: join(this.#home.dir, "sinks"),
      audit: { path: join(this.#home.dir, "logs", "findings.jsonl") },
      onProblem: log.warn,
      ...(targets.http && { http: this.#endpointOf(targets.http) }),
      ...(targets.otlp && { otlp: this.#endpointOf(targets.otlp) }),
      ...(targets.webhook && { webhook: targets.webhook }),
    });
    this.#sinkOptions = optionText;
    return this.#sinks;
  }

  #endpointOf({ endpoint, auth }: Target): Endpoint {
    return { endpoint, ...(auth && { authorize: sinkAuthorization(this.#home, auth) }) };
  }
}

/** Least severity of findings that people hear of at once. */
export function alertSeverity(settings: Pick<SettingsStore, "inForce">): Severity {
  return (settings.inForce("alerts.severity") ?? "high") as Severity;
}

/** A sink as the configuration names it; undefined without an address. */
function targetOf(endpoint?: unknown, credential_ref?: unknown, user?: unknown): Target | undefined {
  if (!endpoint) return undefined;
  const auth = credential_ref
    ? { credential_ref: String(credential_ref), ...(user ? { user: String(user) } : {}) }
    : undefined;
  return { endpoint: String(endpoint), ...(auth && { auth }) };
}

function sinkProblems({ name, last_error, queued_bytes, dropped, refused }: SinkStatus): string[] {
  const problems: string[] = [];
  if (last_error !== null) {
    problems.push(
      `findings wait for the sink "${name}" (${queued_bytes} bytes): ${last_error}; they are sent once it answers`,
    );
  }
  const lost: string[] = [];
  if (dropped) lost.push(`${count(dropped, "finding")} did not fit its queue`);
  if (refused) lost.push(`${count(refused, "finding")} it refused`);
  if (lost.length) {
    problems.push(`the sink "${name}" lacks findings: ${lost.join(", ")}; the ledgers have them all`);
  }
  return problems;
}
