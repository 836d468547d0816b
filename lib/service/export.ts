/** Export of findings to the sinks (docs/contracts.md §12). They are read from the ledgers, so none is lost while no service runs. */
import { join } from "node:path";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";
import type { CorpStore } from "../corp/mod.ts";
import type { DetectionFinding } from "../detection/mod.ts";
import { sessionPaths } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import type { FindingSinks } from "../sink/mod.ts";

/** Findings read from a ledger at once. */
const BATCH = 500;
/** Wait for further findings of a session before its ledger is read, in `ms`. */
const GATHER_MS = 200;

/** Reads findings from ledgers and sends them to the sinks. A file beside each ledger has the position. */
export class FindingExport {
  readonly #home: Home;
  readonly #settings: SettingsStore;
  readonly #corp: CorpStore;
  #sinks?: FindingSinks;
  /** options of the open sinks, as JSON */
  #sinkOptions = "";
  readonly #waiting = new Set<string>();
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home, settings: SettingsStore, corp: CorpStore) {
    this.#home = home;
    this.#settings = settings;
    this.#corp = corp;
  }

  /** Queues every session: there may be findings from the time when no service ran. */
  async begin(): Promise<void> {
    for await (const { name } of Deno.readDir(join(this.#home.dir, "ledgers"))) this.#queue(name);
  }

  /** Queues a session that has a new finding. */
  queueSession(sessionId: string): void {
    if (this.#waiting.has(sessionId)) return;
    this.#waiting.add(sessionId);
    backgroundTimeout(() => this.#queue(sessionId), GATHER_MS);
  }

  async close(): Promise<void> {
    await this.#tail;
    await this.#sinks?.close();
  }

  #queue(sessionId: string): void {
    this.#tail = this.#tail.then(async () => {
      this.#waiting.delete(sessionId);
      try {
        await this.#send(sessionId);
      } catch (error) {
        log("exporting findings:", (error as Error).message);
      }
    });
  }

  async #send(sessionId: string): Promise<void> {
    const { ledger } = sessionPaths(this.#home, sessionId);
    const mark = `${ledger}.exported`;
    const { readFindingRows } = await import("../ledger/read/mod.ts");
    let after = Number(await Deno.readTextFile(mark).catch(() => "0"));
    for (let more = true; more;) {
      const rows = await readFindingRows(ledger, after, BATCH);
      if (rows.length === 0) return;
      const sinks = await this.#openSinks();
      for (const { finding, event } of rows) sinks.send(finding as DetectionFinding, event);
      after = rows.at(-1)!.row;
      await writeAtomic(mark, String(after));
      more = rows.length === BATCH;
    }
  }

  async #openSinks(): Promise<FindingSinks> {
    const { state } = this.#corp;
    const corp = "config" in state ? state.config.file.corp_rule_files : {};
    const valueOf = (id: string) => this.#settings.resolved.byId.get(id)?.effective_value;
    const telemetry = valueOf("telemetry.enabled") ? valueOf("telemetry.endpoint") : undefined;
    const options = {
      ...(corp.sigma_output_endpoint && { http: { endpoint: corp.sigma_output_endpoint } }),
      ...((corp.open_telemetry || telemetry) && {
        otlp: { endpoint: corp.open_telemetry ?? String(telemetry) },
      }),
    };
    const optionText = JSON.stringify(options);
    if (this.#sinks && optionText === this.#sinkOptions) return this.#sinks;
    await this.#sinks?.close();
    const { FindingSinks } = await import("../sink/mod.ts");
    this.#sinks = await FindingSinks.open({
      dir: join(this.#home.dir, "sinks"),
      audit: { path: join(this.#home.dir, "logs", "findings.jsonl") },
      ...options,
    });
    this.#sinkOptions = optionText;
    return this.#sinks;
  }
}
