/**
 * Enforces the contract of one session, and resumes its budgets and ports
 * (docs/design/contracts/04-profiles.md §4, "Budgets").
 */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { ResponseTerms } from "../detection/response/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { userName } from "../base/user/mod.ts";
import { useHostNetwork } from "../base/proxy/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundInterval } from "../base/time/mod.ts";
import {
  type CredentialBroker,
  CredentialStore,
  Logins,
  type ProvidedSecrets,
  storePath,
} from "../credential/mod.ts";
import type { SessionGate } from "./gate/mod.ts";
import { compileLayers } from "../policy/mod.ts";
import {
  type Cost,
  DaySpending,
  DNS_BYTES,
  narrowBudget,
  OUTPUT_MAX,
  type Spent,
} from "../policy/budget/mod.ts";
import { AccessRequests } from "./access.ts";
import { ActivityRecord } from "./activity/mod.ts";
import { type Contract, detectionsOf, exportRoutesOf, readContract } from "./files/contract.ts";
import { grantOf } from "./grant.ts";
import { fileDraft, type HostFile } from "./file_event.ts";
import { pinsPath, type SessionPaths, sessionPaths } from "./files/paths.ts";
import { knownHostsOf } from "./known_hosts.ts";
import { readRecord, type VmRecord } from "./files/record.ts";
import type { McpSide } from "./mcp.ts";
import { Rate } from "../machine/limit/mod.ts";
import type { GrpcTypes } from "../network/grpc/mod.ts";
import { NetworkAccess } from "./network_access.ts";
import { decidePort, recordPortClosed } from "./program.ts";
import type { PortWork } from "./forward/mod.ts";
import type { Recording, RecordingOptions } from "./recording.ts";
import type { SessionReport } from "./report.ts";
import {
  decideFile,
  type FileDecision,
  type FileRequest,
  openGate,
  type RecordParts,
} from "./session_gate.ts";
import { Turns, TurnStates } from "./agent_turns.ts";
import { type HeldSession, Responder } from "./response.ts";
import { Statements } from "./statement.ts";
import { IMAGE_SERVICE, imageService, type ServiceDefinition } from "./services/mod.ts";

/** `ms` between records of a session's minutes, the most that killing its process can lose. */
const MINUTE_MS = 60_000;

/** The session that a contract is enforced in. */
export interface EnforcementOptions extends Pick<RecordingOptions, "onUnrecorded" | "onRecorded"> {
  home: Home;
  paths: SessionPaths;
  record: VmRecord;
  report: Pick<SessionReport, "tell" | "set" | "change" | "noteHeads">;
  /** the machine has lived as long as corp allows */
  onLifetime(): void;
  /** stops the machine after a finding; absent: no machine runs */
  machine?: HeldSession["machine"];
}

const MIB = 1024 * 1024;

/**
 * Enforces the contract of one session: its gate, and the network and MCP that go through the gate.
 * Loaded while the machine boots.
 */
export class Enforcement {
  readonly gate: SessionGate;
  readonly network: NetworkAccess;
  readonly activity: ActivityRecord;
  readonly #options: EnforcementOptions;
  readonly #broker: CredentialBroker;
  readonly recording: Recording;
  readonly statements: Statements;
  /** answers findings */
  readonly responder: Responder;
  readonly turns = new TurnStates();
  #contract: Contract;
  #grpcTypes?: GrpcTypes;
  readonly #access: AccessRequests;
  readonly #lifetime: Lifetime;
  #mcp?: Promise<McpSide>;
  /** spending of the profile today; from the first budget on */
  #day?: DaySpending;
  /** the session's use before its first budget */
  #before?: Promise<Spent | string>;
  /** puts the minutes of the session on record; from the first limit of minutes on */
  #minuteTimer?: number;

  private constructor(
    options: EnforcementOptions,
    { contract, broker, recording, gate }: RecordParts,
    responder: Responder,
  ) {
    this.#options = options;
    this.responder = responder;
    this.#contract = contract;
    this.#broker = broker;
    this.recording = recording;
    this.statements = new Statements(recording.ledger, options.record);
    this.gate = gate;
    this.#lifetime = new Lifetime((minutes) => {
      log.warn(`the machine has run for ${minutes} minutes, the limit of corp.toml: it is stopped`);
      options.onLifetime();
    });
    this.#lifetime.use(contract.corp.vm_minutes);
    this.#access = new AccessRequests({
      gate,
      scrub: (text) => broker.scrub(text),
      apply: () => this.#apply(this.#contract),
    });
    const { report, record } = options;
    const devPorts = new DevPorts(record.env, (dev_ports) => report.set({ dev_ports }));
    this.activity = new ActivityRecord(gate, {
      onProblem: (activity_error) => report.change({ activity_error }),
      onListen: (port) => devPorts.add(port),
    });
    this.#applyToGuest(contract);
    this.network = new NetworkAccess(async () => {
      const { Network } = await import("./network.ts");
      await this.#useDescriptors(this.#contract);
      const { network_mb_per_s } = record.limits ?? {};
      const rate = network_mb_per_s === undefined
        ? undefined
        : new Rate(network_mb_per_s * MIB, () => this.statements.limitReached("network_mb_per_s"));
      return await Network.open({
        home: options.home,
        contract: this.#contract,
        gate,
        broker,
        rate,
        grpcTypes: () => this.#grpcTypes,
        mayCache: () => this.#contract.corp.cache !== false,
      });
    }, (network_error) => report.change({ network_error }));
  }

  /** @throws {SbxError} `session.contract`, `policy.invalid`, `detection.conflict`, as opening the ledger */
  static async open(options: EnforcementOptions): Promise<Enforcement> {
    const { home, paths, record, report, onUnrecorded, onRecorded } = options;
    const contract = await readContract(paths);
    useHostNetwork(contract.network);
    const responder = new Responder(paths.response, record.name, responsesOf(contract));
    const turns = new Turns(({ common }) => enforcement.#keepTurn(common.timestamp_unix_ms));
    const parts = await openGate({
      home,
      path: paths.ledger,
      contract,
      record,
      onUnrecorded,
      onRecorded,
      tell: (notice) => report.tell(notice),
      onHeads: (heads) => report.noteHeads(heads),
      before: (event) => turns.before(event),
      ended: (event, response) => turns.ended(event, response),
      hold: responder,
    });
    let enforcement: Enforcement;
    try {
      enforcement = new Enforcement(options, parts, responder);
      enforcement.statements.contract(contract, [contract.corp.rules, contract.profile.rules]);
      responder.attach(enforcement.#heldSession());
      await enforcement.#applyBudget(contract);
      if (hasServers(contract)) enforcement.mcp().catch((error) => log.warn(error));
      return enforcement;
    } catch (error) {
      await parts.recording.close();
      throw error;
    }
  }

  /**
   * Variables for a program that starts now: refs of credentials that came since the
   * boot (§9, "Guest environment").
   */
  async freshEnv(): Promise<Record<string, string>> {
    const { env, parent } = this.#options.record;
    // A third party's program has the refs that its definition names, and no others.
    if (parent) return {};
    await this.#broker.refresh();
    return this.#broker.freshEnv(env);
  }

  /** Services that the profile gives the VM, and the program of its image. */
  get services(): Readonly<Record<string, ServiceDefinition>> {
    const { environment, devcontainer } = this.#options.record;
    const program = devcontainer ? undefined : environment?.program;
    return { ...program && { [IMAGE_SERVICE]: imageService(program) }, ...this.#contract.profile.services };
  }

  /** The host's clock has jumped by `sleptMs`: it slept. */
  woke(sleptMs: number): void {
    log.info(
      `the host's clock went ahead by ${Math.round(sleptMs / 1000)} s: it slept, or its clock was set`,
    );
    this.statements.clock(sleptMs);
    this.network.renew();
  }

  /** Takes the current secrets of credentials whose programs the service runs, by ref. */
  async provide(secrets: ProvidedSecrets): Promise<void> {
    await this.#broker.provide(secrets);
  }

  /** A value as the record has it: refs for secrets. */
  scrub<T>(value: T): T {
    return this.#broker.scrubValue(value);
  }

  /**
   * Reads the contract again and activates it.
   *
   * @param options.mcp reconnects the MCP servers even if their definitions are the same
   * @throws {SbxError} the problem with the new contract; the previous one stays active
   */
  async refresh({ mcp = false } = {}): Promise<void> {
    const contract = await readContract(this.#options.paths);
    const previous = this.#contract;
    await this.#applyBudget(contract);
    await this.#useDescriptors(contract);
    const keys = await this.#chosenKeys();
    await this.recording.use(contract.ledger);
    // Events that waited for the new rules go on once this turn ends, and find all of the contract in use.
    this.#apply(contract);
    this.#contract = contract;
    this.#broker.grant(grantOf(contract, keys));
    this.#lifetime.use(contract.corp.vm_minutes);
    if (mcp || serversDiffer(previous, contract)) await (await this.mcp()).refresh(contract);
  }

  /**
   * Labels of the keys that the VM uses, which change while it runs; of a record
   * that cannot be read the last ones.
   */
  async #chosenKeys(): Promise<VmRecord["credentials"]> {
    const record = await readRecord(this.#options.paths).catch(() => undefined);
    if (record) this.#options.record.credentials = record.credentials;
    return this.#options.record.credentials;
  }

  #heldSession(): HeldSession {
    const { report, machine } = this.#options;
    return {
      gate: this.gate,
      snapshot: () => this.#keepEvidence(),
      cut: () => void this.network.cut(),
      ...(machine && { machine }),
      show: (response) => report.set({ response }),
    };
  }

  /** Keeps the workspace as it is when a finding is answered. @returns the id of a snapshot */
  async #keepEvidence(): Promise<string> {
    const limits = this.#contract.snapshots;
    if (!limits) throw new SbxError("snapshot.not_granted", "snapshots come with the next start of this VM");
    const { eventOf, SnapshotStore } = await import("../machine/snapshot/mod.ts");
    const { snapshots, workspace } = this.#options.paths;
    const store = new SnapshotStore(snapshots, workspace);
    const made = await store.create({ kind: "manual", label: "after a finding", limits });
    if (!made) return "unchanged since the last one";
    this.observeFile(eventOf(made, { client: "sbx-process", user: userName() }));
    return made.id;
  }

  /** Opens the descriptors of messages that a contract's rules read. */
  async #useDescriptors({ profile: { grpc_descriptors } }: Contract): Promise<void> {
    if (grpc_descriptors === undefined) {
      this.#grpcTypes = undefined;
      return;
    }
    const { openTypes } = await import("../network/grpc/mod.ts");
    this.#grpcTypes = await openTypes(Uint8Array.fromBase64(grpc_descriptors));
  }

  /** Activates a contract's rules and detections, with the access that people have allowed meanwhile. */
  #apply(contract: Contract): void {
    const { corp, profile, project } = contract;
    this.responder.terms = responsesOf(contract);
    const rules = [...profile.rules, ...this.#access.rules];
    this.gate.use(compileLayers({ corp, profile: { rules }, project }), detectionsOf(contract), {
      exportRoutes: exportRoutesOf(contract),
      profileRevision: profile.revision,
      known: knownHostsOf(this.#options.home.dir, this.#options.record.profile_id, contract),
    });
    this.#applyToGuest(contract);
    this.statements.contract(contract, [corp.rules, rules]);
  }

  /** Programs of the guest wait for the rules, where one may restrict them or their files. */
  #applyToGuest({ profile }: Contract): void {
    this.activity.usePaths(profile.paths ?? {});
    const { restrictsPrograms, restrictsFiles } = this.gate.guestRules;
    this.activity.holds.want({ exec: restrictsPrograms, ...restrictsFiles });
  }

  /** Activates the budgets of a contract. Prices are loaded if there is one. */
  async #applyBudget({ corp, profile, network, budget }: Contract): Promise<void> {
    const own = narrowBudget(profile.budget, budget);
    if (!corp.budget && !own && !this.#day) return;
    const { BUILT_IN_PRICES, loadPrices } = await import("../network/model/mod.ts");
    const prices = network.price_file === undefined ? BUILT_IN_PRICES : await loadPrices(network.price_file);
    const { home, paths, record } = this.#options;
    const cost: Cost = (provider, model, usage) => prices.cost(provider, model, usage)?.micros;
    const before = await (this.#before ??= this.recording.ledger.flush()
      .then(() => readSpent(paths.ledger, cost), (error) => (error as Error).message));
    const day = this.#day ??= new DaySpending(join(home.budgetsDir, record.profile_id), record.id);
    const terms = {
      ...(corp.budget && { corp: corp.budget }),
      ...(own && { profile: own }),
    };
    this.gate.useBudget({ terms, cost, day, before });
    const hasMinutes = Object.values(terms).some(({ minutes, per_day_minutes }) =>
      minutes ?? per_day_minutes
    );
    if (hasMinutes) this.#minuteTimer ??= backgroundInterval(() => this.gate.recordMinutes(), MINUTE_MS);
  }

  /**
   * Keeps workspace and repositories before a turn of an agent, if they changed. The
   * turn goes on whatever comes of it.
   */
  async #keepTurn(at_unix_ms: number): Promise<void> {
    const limits = this.#contract.snapshots;
    if (!limits?.turns) return;
    await Promise.all([this.#keepWorkspace(limits), this.#keepRepositories(at_unix_ms)]);
  }

  /** Has the service keep them, whose git stores are the host's. */
  async #keepRepositories(at_unix_ms: number): Promise<void> {
    const { paths: { repository }, report } = this.#options;
    const record = await Deno.lstat(join(repository, "record.json")).catch(() => undefined);
    if (record) await this.turns.begin(at_unix_ms, (notice) => report.tell(notice));
  }

  async #keepWorkspace(limits: NonNullable<Contract["snapshots"]>): Promise<void> {
    try {
      const { eventOf, SnapshotStore } = await import("../machine/snapshot/mod.ts");
      const { snapshots, workspace } = this.#options.paths;
      const made = await new SnapshotStore(snapshots, workspace).create({
        kind: "auto",
        label: "before a turn of the agent",
        // A guest decides when it calls a model: these push out none of the host's.
        actor: "guest",
        limits,
      });
      if (made) this.observeFile(eventOf(made, { client: "sbx-process", user: userName() }));
    } catch (error) {
      log.warn("no snapshot before a turn of the agent:", (error as Error).message);
    }
  }

  /** Records a change by the host to files of the workspace. */
  observeFile(file: HostFile): void {
    this.gate.observe(fileDraft(file, this.#contract.profile.paths ?? {}));
  }

  /** Asks the rules about a file that the host is about to put into the VM, or to hand out. */
  decideFile(request: FileRequest, signal?: AbortSignal): Promise<FileDecision> {
    return decideFile({ gate: this.gate, contract: this.#contract }, request, signal);
  }

  /**
   * Asks the rules about a port of the host that is about to lead into the VM.
   * @throws {SbxError} `policy.blocked`
   */
  openPort(work: PortWork): Promise<string> {
    return decidePort(this.gate, work);
  }

  portClosed(work: PortWork, opened: string): void {
    recordPortClosed(this.gate, work, opened);
  }

  /** MCP of the session, loaded at boot if the contract has servers, else when the guest first uses it. */
  mcp(): Promise<McpSide> {
    this.#mcp ??= this.#openMcp();
    this.#mcp.catch(() => this.#mcp = undefined);
    return this.#mcp;
  }

  async close(): Promise<void> {
    this.#access.close();
    clearInterval(this.#minuteTimer);
    if (this.#minuteTimer !== undefined) this.gate.recordMinutes();
    await this.#day?.flush().catch((error) => log.warn(error));
    await this.#mcp?.then((mcp) => mcp.close(), () => {});
    await this.network.close();
    await this.#broker.close();
    this.gate.close();
    await this.recording.close();
  }

  async #openMcp(): Promise<McpSide> {
    const [
      { McpSide },
      { SessionLogins },
      { ProgramVms },
      { snapshotTools, SnapshotStore },
      { signingTool },
      { askTool },
    ] = await Promise
      .all([
        import("./mcp.ts"),
        import("./mcp.ts"),
        import("./mcp_program.ts"),
        import("./snapshot_tools.ts"),
        import("./signing_tool.ts"),
        import("./ask_tool.ts"),
      ]);
    const { home, paths, record, report } = this.#options;
    return await McpSide.open({
      tools: [
        ...snapshotTools({
          store: new SnapshotStore(paths.snapshots, paths.workspace),
          limits: () => this.#contract.snapshots,
          observe: (file) => this.observeFile(file),
        }),
        signingTool({ gate: this.gate, broker: this.#broker }),
        askTool(this.gate),
      ],
      gate: this.gate,
      contract: this.#contract,
      dir: paths.sockets,
      pinsPath: pinsPath(home, record.profile_id),
      programs: new ProgramVms({
        logs: paths.logs,
        socketOf: (session) => sessionPaths(home, session).socket,
        tell: (mcp_needs) => report.set({ mcp_needs }),
      }),
      logins: new SessionLogins({
        logins: new Logins(new CredentialStore(storePath(home))),
        profile: record.profile_id,
        isAllowed: () => this.#contract.corp.logins !== false,
        use: async (...use) => (await this.network.open()).useCredential(...use),
      }),
      resolve: async (...request) => (await this.network.open()).resolveCredential(...request),
      ask: this.#access.ask,
      send: async (request) => (await this.network.open()).send(request),
    });
  }
}

/** Answers to findings that a contract demands. */
function responsesOf({ corp, profile }: Contract): ResponseTerms {
  return {
    ...(corp.response && { corp: corp.response }),
    ...(profile.response && { profile: profile.response }),
  };
}

function hasServers({ profile, corp }: Contract): boolean {
  return Object.keys(profile.mcp).length + Object.keys(corp.mcp).length > 0;
}

function serversDiffer(a: Contract, b: Contract): boolean {
  const servers = ({ profile, corp }: Contract) => JSON.stringify([profile.mcp, corp.mcp]);
  return servers(a) !== servers(b);
}

// Longest life of a machine, where corp sets one (docs/design/contracts/03-settings.md §3, "Corp limits").

/** Ends a machine when its time is over; a new limit counts from the same start. */
export class Lifetime implements Disposable {
  readonly #end: (minutes: number) => void;
  readonly #minuteMs: number;
  readonly #started = performance.now();
  #timer?: ReturnType<typeof setTimeout>;

  /** @param end called once the time is over */
  constructor(end: (minutes: number) => void, minuteMs = 60_000) {
    this.#end = end;
    this.#minuteMs = minuteMs;
  }

  /** Activates a limit, in minutes; `undefined` for no limit. */
  use(minutes: number | undefined): void {
    clearTimeout(this.#timer);
    if (minutes === undefined) return;
    const rest = this.#started + minutes * this.#minuteMs - performance.now();
    // Timers take 31 bits; the limit of the schema is below that.
    this.#timer = setTimeout(() => this.#end(minutes), Math.max(0, rest));
    Deno.unrefTimer(this.#timer as unknown as number);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}

/** Most development ports of a VM (docs/design/contracts/02-http.md §2, "Ports"). */
const DEV_PORTS_MAX = 32;

/** The ports of the variable `SBX_DEV_PORTS` that programs of the guest listen on. */
export class DevPorts {
  readonly #wanted: ReadonlySet<number>;
  readonly #found = new Set<number>();
  readonly #tell: (ports: number[]) => void;

  /** @param tell receives all of them, with each new one */
  constructor({ SBX_DEV_PORTS = "" }: Record<string, string>, tell: (ports: number[]) => void) {
    const ports = SBX_DEV_PORTS.split(",").map(Number).filter((port) => port > 0);
    this.#wanted = new Set(ports.slice(0, DEV_PORTS_MAX));
    this.#tell = tell;
  }

  add(port: number): void {
    if (!this.#wanted.has(port) || this.#found.has(port)) return;
    this.#found.add(port);
    this.#tell([...this.#found]);
  }
}

/**
 * Reads the use of a session so far.
 *
 * @param path its ledger, with every row written
 * @returns a text: why the use is unknown, as a clause
 */
export async function readSpent(path: string, cost: Cost, now = Date.now()): Promise<Spent | string> {
  try {
    // Loads the database, which this thread needs for nothing else.
    const { readSpending } = await import("../ledger/read/mod.ts");
    const midnight = now - now % 86_400_000;
    const { total, today, unstated } = await readSpending(path, midnight, DNS_BYTES);
    for (const { provider, model, isToday, tokens, usd, uncountedBytes, uncounted } of unstated) {
      const usage = { input: uncountedBytes, output: uncounted * OUTPUT_MAX };
      const price = uncounted > 0 ? (cost(provider, model, usage) ?? 0) / 1e6 : 0;
      for (const sums of isToday ? [total, today] : [total]) {
        sums.tokens += tokens + usage.input + usage.output;
        sums.usd += usd + price;
      }
    }
    return { total, today };
  } catch (error) {
    log.error((error as Error).message);
    return `the session's use so far cannot be read from its record: ${(error as Error).message}`;
  }
}
