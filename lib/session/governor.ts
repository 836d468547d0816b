import { CredentialBroker, CredentialStore, storePath } from "../credential/mod.ts";
import { asSbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import type { Ask, AskAnswer, Verdict } from "../policy/mod.ts";
import { summary } from "../policy/mod.ts";
import { Collecting } from "./collecting.ts";
import { type Contract, readContract } from "./files/contract.ts";
import { SessionGate, type SessionNotice } from "./gate.ts";
import type { Network } from "./network.ts";
import type { McpSide } from "./mcp.ts";
import { pinsPath, type SessionPaths } from "./files/paths.ts";
import { execDraft, exitDraft, type Program, programOf } from "./program.ts";
import type { VmRecord } from "./files/record.ts";

/** How often a ledger that could not be written is tried again. */
const LEDGER_RETRY_MS = 1000;
/** How often a network that could not be opened is tried again. */
const NETWORK_RETRY_MS = 2000;

/** What a governor needs of its session. */
export interface GovernorOptions {
  home: Home;
  paths: SessionPaths;
  record: VmRecord;
  tell(notice: SessionNotice): void;
  /** the ledger cannot be written, and `ledger.on_full` says whether the machine must stand still until it can */
  onUnrecorded(error: Error, pause: boolean): Promise<void>;
  /** it can be written again */
  onRecorded(): Promise<void>;
  /** why the guest has no network; undefined when it has one */
  onNetwork(problem?: string): void;
}

/** A program that policy lets run, perhaps another than was asked for. */
export interface Permitted {
  verdict: Verdict;
  program: Program;
  /** one line that says why, for a program that may not run */
  refusal: string;
}

/** Everything that governs one guest: its gate, and what of it goes through the gate. Loaded while the machine boots. */
export class Governor {
  readonly gate: SessionGate;
  #options: GovernorOptions;
  #contract: Contract;
  readonly #broker: CredentialBroker;
  #collecting?: Collecting;
  #mcp?: Promise<McpSide>;
  #network?: Promise<Network>;
  #networkProblem?: string;
  #closed = false;

  private constructor(
    options: GovernorOptions,
    contract: Contract,
    gate: SessionGate,
    broker: CredentialBroker,
  ) {
    this.#options = options;
    this.#contract = contract;
    this.gate = gate;
    this.#broker = broker;
  }

  /** @throws {SbxError} `session.contract`, `policy.invalid`, or what opening the ledger throws */
  static async open(options: GovernorOptions): Promise<Governor> {
    const { paths, record, tell } = options;
    const contract = await readContract(paths);
    const broker = await CredentialBroker.open({
      store: new CredentialStore(storePath(options.home)),
      providers: contract.profile.providers,
      vm: record.id,
      onError: ({ message }) => log(message),
    });
    const gate = await SessionGate.open({
      paths,
      record,
      contract,
      tell,
      scrub: (text) => broker.scrub(text),
      onLedgerFailure: (error) => void governor.#unrecorded(error),
    });
    const governor: Governor = new Governor(options, contract, gate, broker);
    if (hasServers(contract)) governor.mcp().catch((error) => log(error));
    await governor.#collect();
    return governor;
  }

  /**
   * Reads the contract again and puts it in force.
   *
   * @param options.mcp connects all MCP servers anew, also if they are the same
   * @throws {SbxError} what is wrong with it; the one before stays
   */
  async refresh({ mcp = false } = {}): Promise<void> {
    const contract = await readContract(this.#options.paths);
    const before = this.#contract;
    this.gate.use(contract);
    if (contract.ledger.max_bytes !== before.ledger.max_bytes) {
      await this.gate.ledger.limit(contract.ledger.max_bytes);
    }
    this.#contract = contract;
    if (mcp || serversDiffer(before, contract)) await (await this.mcp()).refresh(contract);
  }

  /** Asks whether a program may run. @throws {SbxError} `ledger.unavailable` */
  async permit(asked: Program, cancelled?: AbortSignal): Promise<Permitted> {
    const verdict = await this.gate.decide(execDraft(asked), cancelled);
    const refusal = verdict.allowed ? "" : summary(verdict.decision);
    return { verdict, program: programOf(verdict.event, asked), refusal };
  }

  /** The guest's network, loaded at its first word. */
  network(): Promise<Network> {
    return this.#network ??= this.#openNetwork().then((network) => {
      this.#options.onNetwork(this.#networkProblem = undefined);
      return network;
    }, (cause) => {
      this.#network = undefined;
      const { message } = asSbxError(cause, "opening the network of this VM");
      // A guest tries as often as it likes; that it has no network need not be told each time.
      if (message !== this.#networkProblem) log("the network of this VM:", message);
      this.#options.onNetwork(this.#networkProblem = message);
      throw cause;
    });
  }

  /**
   * The guest's network, tried again until it can be opened. For queries of DNS: a guest whose one connection for them
   * is cut off asks no more, also when what was wrong has been mended.
   *
   * @throws {SbxError} what it cannot be opened for when the session ends
   */
  async awaitNetwork(): Promise<Network> {
    while (true) {
      try {
        return await this.network();
      } catch (error) {
        if (this.#closed) throw error;
        await unrefDelay(NETWORK_RETRY_MS);
      }
    }
  }

  async #openNetwork(): Promise<Network> {
    const { Network } = await import("./network.ts");
    const { home } = this.#options;
    return await Network.open({ home, contract: this.#contract, gate: this.gate, broker: this.#broker });
  }

  /** MCP of this session, loaded when it is first needed: at the boot of a VM that has servers, or at its guest's first word. */
  mcp(): Promise<McpSide> {
    this.#mcp ??= this.#openMcp();
    this.#mcp.catch(() => this.#mcp = undefined);
    return this.#mcp;
  }

  async #openMcp(): Promise<McpSide> {
    const { McpSide } = await import("./mcp.ts");
    const { home, paths, record } = this.#options;
    return await McpSide.open({
      gate: this.gate,
      contract: this.#contract,
      dir: paths.sockets,
      pinsPath: pinsPath(home, record.profile_id),
      resolve: async (...asked) => (await this.network()).resolveCredential(...asked),
      send: async (request) => (await this.network()).send(request),
    });
  }

  exited(program: Program, exitCode: number): void {
    this.gate.observe(exitDraft(program, exitCode));
  }

  /** What waits for a person. */
  asks(): Ask[] {
    return this.gate.asks.pending();
  }

  /** @throws {SbxError} `ask.not_found`, `ask.invalid`, `policy.blocked` */
  resolve(askId: string, answer: AskAnswer): Ask {
    return this.gate.asks.resolve(askId, answer);
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#mcp?.then((mcp) => mcp.close(), () => {});
    await this.#network?.then((network) => network.close(), () => {});
    await this.#broker.close();
    await this.gate.close().catch(() => {});
    await this.#collecting?.end();
  }

  /** Copies the ledger to where corp collects those of many hosts. One that cannot be had is told in the log and tried again later. */
  async #collect(): Promise<void> {
    const { paths, record } = this.#options;
    const { url, auth_token_file } = this.#contract.ledger;
    if (url === undefined) return;
    try {
      this.#collecting = await Collecting.start(paths.ledger, record.id, { url, auth_token_file });
    } catch (error) {
      log((error as Error).message);
    }
  }

  /** The gate refuses everything from now on, until what waits is written. */
  async #unrecorded(error: Error): Promise<void> {
    log(error.message);
    const pause = this.#contract.ledger.on_full === "pause";
    await this.#options.onUnrecorded(error, pause).catch((failed) => log(failed));
    do {
      await unrefDelay(LEDGER_RETRY_MS);
    } while (!await this.gate.ledger.flush().then(() => true, () => false));
    log("the ledger is written again");
    await this.#options.onRecorded().catch((failed) => log(failed));
  }
}

/** Waits, and keeps no process for that. */
function unrefDelay(ms: number): Promise<void> {
  return new Promise((resolve) => Deno.unrefTimer(setTimeout(resolve, ms) as unknown as number));
}

function hasServers({ profile, corp }: Contract): boolean {
  return Object.keys(profile.mcp).length + Object.keys(corp.mcp).length > 0;
}

function serversDiffer(a: Contract, b: Contract): boolean {
  const servers = ({ profile, corp }: Contract) => JSON.stringify([profile.mcp, corp.mcp]);
  return servers(a) !== servers(b);
}
