/**
 * VMs of a home without machines, for the benchmark of the desktop page: records of many
 * events, and one whose events come.
 */
import type { Home } from "../../lib/base/home/mod.ts";
import { newEventId } from "../../lib/event/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { compileLayers } from "../../lib/policy/mod.ts";
import { detectionsOf, sessionPaths, writeState } from "../../lib/session/mod.ts";
import { SessionGate } from "../../lib/session/gate/mod.ts";
import {
  type Call,
  type Caller,
  CallServer,
  type MachineInfo,
  type Reply,
} from "../../lib/session/ipc/mod.ts";
import { execEvent, requestEvent } from "./ledger.ts";
import { contractOf, http } from "./session_gate.ts";

/** Events of a batch of the ledger. */
const FLUSHED = 1000;
/** `ms` between two events. */
const STEP_MS = 20;

/** Writes the past of a VM, which ends now: requests, lookups and programs, some blocked. */
export async function writeRecordOf(ledger: Ledger, id: string, count: number): Promise<void> {
  const begin = Date.now() - count * STEP_MS;
  for (let index = 0; index < count; index++) {
    const event = index % 20 === 0
      ? execEvent(`make target-${index}`)
      : index % 5 === 0
      ? requestEvent("dns.query", { qname: `host-${index % 1000}.example` })
      : requestEvent("http.request", { path: `/items/${index}` });
    Object.assign(event.common, {
      ...{ event_id: newEventId(), session_id: id, timestamp_unix_ms: begin + index * STEP_MS },
    });
    ledger.append({ event, decision: { decision: index % 100 === 0 ? "block" : "allow" } });
    if (index % FLUSHED === 0) await ledger.flush();
  }
}

/** The process of a VM that runs: it has a real gate and record, and no machine. */
export class LiveVm implements AsyncDisposable {
  readonly #info: MachineInfo = { state: "Running", boot_stages: [], pid: Deno.pid };
  readonly #listeners = new Set<Caller>();
  readonly #server: CallServer;
  readonly #gate: SessionGate;
  readonly #ledger: Ledger;

  private constructor(ledger: Ledger, id: string, socket: string) {
    const contract = contractOf("");
    this.#ledger = ledger;
    this.#gate = new SessionGate({
      session: { id, profile_id: "code", profile_revision: "1.0.0" },
      policy: compileLayers(contract),
      detections: detectionsOf(contract),
      recorder: ledger,
      tell: ({ type, payload }) => {
        const copy = structuredClone(payload) as unknown as Record<string, unknown>;
        for (const caller of this.#listeners) {
          caller.reply({ t: "Notice", type, payload: copy }).catch(() => this.#listeners.delete(caller));
        }
      },
      scrubValue: (value) => value,
    });
    const listener = Deno.listen({ transport: "unix", path: socket });
    this.#server = new CallServer(listener, (call, caller) => this.#serve(call, caller));
  }

  /** @param id of a session whose record of the VM is written */
  static async open(home: Home, id: string): Promise<LiveVm> {
    const paths = sessionPaths(home, id);
    const ledger = await Ledger.open(paths.ledger, { sessionId: id });
    const vm = new LiveVm(ledger, id, paths.socket);
    await writeState(paths, vm.#info);
    return vm;
  }

  /** Decides requests at a rate until it is disposed of. */
  flood(perSecond: number): AsyncDisposable {
    const TICKS = 20;
    let decided = Promise.resolve();
    const timer = setInterval(() => {
      for (let count = 0; count < perSecond / TICKS; count++) {
        decided = decided.then(async () => void await this.#gate.decide(http("live.example")));
      }
    }, 1000 / TICKS);
    return {
      [Symbol.asyncDispose]() {
        clearInterval(timer);
        return decided;
      },
    };
  }

  async #serve(call: Call, caller: Caller): Promise<void> {
    if (call.t === "Watch") {
      await caller.reply({ t: "Info", info: this.#info });
      this.#listeners.add(caller);
      return void await caller.input();
    }
    if (call.t === "Flush") await this.#ledger.flush();
    const replies: Partial<Record<Call["t"], Reply>> = {
      Asks: { t: "Asks", asks: [], decided: [] },
      AsksInForce: { t: "AsksInForce", asks: [] },
      Info: { t: "Info", info: this.#info },
      Counters: { t: "Counters", counters: this.#gate.counters() },
    };
    await caller.reply(replies[call.t] ?? { t: "Ok" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
    this.#gate.close();
    await this.#ledger.close();
  }
}
