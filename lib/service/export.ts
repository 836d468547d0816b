/** Findings on their way to the sinks (spec.md, "Events" 2). The ledgers are the source, so that none is lost while no service runs. */
import { join } from "node:path";
import type { CorpStore } from "../corp/mod.ts";
import type { DetectionFinding } from "../detection/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { sessionPaths } from "../session/mod.ts";
import type { SettingsStore } from "../settings/mod.ts";
import type { FindingSinks } from "../sink/mod.ts";

/** Findings of one look at a ledger. */
const BATCH = 500;
/** How long findings of a session may gather before they are taken out of its ledger. */
const GATHER_MS = 200;

/** Takes findings out of ledgers and hands them to the sinks; how far it came is a file beside each ledger. */
export class FindingExport {
  readonly #home: Home;
  readonly #settings: SettingsStore;
  readonly #corp: CorpStore;
  #sinks?: FindingSinks;
  /** what the sinks were opened with */
  #opened = "";
  readonly #waiting = new Set<string>();
  #tail: Promise<unknown> = Promise.resolve();

  constructor(home: Home, settings: SettingsStore, corp: CorpStore) {
    this.#home = home;
    this.#settings = settings;
    this.#corp = corp;
  }

  /** Looks into the ledgers that are there: findings may have been made while no service ran. */
  async begin(): Promise<void> {
    for await (const { name } of Deno.readDir(join(this.#home.dir, "ledgers"))) this.#queue(name);
  }

  /** A session has a new finding. */
  kick(sessionId: string): void {
    if (this.#waiting.has(sessionId)) return;
    this.#waiting.add(sessionId);
    Deno.unrefTimer(setTimeout(() => this.#queue(sessionId), GATHER_MS) as unknown as number);
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
    const { readFindingRows } = await import("../ledger/findings.ts");
    let after = Number(await Deno.readTextFile(mark).catch(() => "0"));
    for (let more = true; more;) {
      const rows = await readFindingRows(ledger, after, BATCH);
      if (rows.length === 0) return;
      const sinks = await this.#open();
      for (const { finding, event } of rows) sinks.send(finding as DetectionFinding, event);
      after = rows.at(-1)!.row;
      await writeAtomic(mark, String(after));
      more = rows.length === BATCH;
    }
  }

  async #open(): Promise<FindingSinks> {
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
    const wanted = JSON.stringify(options);
    if (this.#sinks && wanted === this.#opened) return this.#sinks;
    await this.#sinks?.close();
    const { FindingSinks } = await import("../sink/mod.ts");
    this.#sinks = await FindingSinks.open({
      dir: join(this.#home.dir, "sinks"),
      audit: { path: join(this.#home.dir, "logs", "findings.jsonl") },
      ...options,
    });
    this.#opened = wanted;
    return this.#sinks;
  }
}
