/** Builds and connects the parts of the service of one home; routes take theirs from here. */
import { userName } from "../base/user/mod.ts";
import { type Home, lockWithin, namesThisProcess, removeIfThere, writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { useHostNetwork } from "../base/proxy/mod.ts";
import { type CorpStore, corpSummary } from "../config/corp/mod.ts";
import { type SettingsStore, watchFolder } from "../config/settings/mod.ts";
import { hostHypervisor, type Hypervisor } from "../machine/vm/mod.ts";
import { AcceleratorChooser } from "./vm/accelerator.ts";
import { ActiveDetections } from "./contract/active_detections.ts";
import type { Finding } from "../event/mod.ts";
import { AskInbox, AskNotifier, openBoard } from "./contract/asks.ts";
import { Detections, FleetBundles, networkOf } from "../home/mod.ts";
import { watchCorp } from "./contract/corp.ts";
import { FindingNotifier } from "./contract/finding_notice.ts";
import { alertSeverity, FindingExport } from "./record/export.ts";
import { FindingTriage } from "./record/finding_triage.ts";
import { Bin } from "./vm/bin.ts";
import { EventFeeds } from "./record/event_feed.ts";
import { FleetShipping } from "./record/fleet_shipping.ts";
import { isHeld } from "./record/removal.ts";
import { RecordRoom } from "./record/room.ts";
import { HostRecords } from "./record/host_record.ts";
import { IdleVms } from "./vm/suspension.ts";
import { Images } from "./images.ts";
import { LoginStart } from "./login_start.ts";
import { SecretPrograms } from "./contract/secret_programs.ts";
import { ProfilesInForce } from "./contract/active_profiles.ts";
import { ProfileMcp } from "./contract/mcp.ts";
import { Contacts } from "./record/contacts.ts";
import { boundLogs } from "./health/log_size.ts";
import { ServiceMetrics } from "./health/metrics.ts";
import { Notices, type ProcessNotice } from "./notice.ts";
import { ContractRefresh } from "./contract/refresh.ts";
import { Registry } from "./vm/registry.ts";
import { Rules } from "./contract/rules.ts";
import { Sessions } from "./record/sessions.ts";
import { Snapshots } from "./run/snapshots.ts";
import { States } from "./run/states.ts";
import { ReleaseStanding } from "./contract/publisher_status.ts";
import { Supervisor } from "./vm/supervisor.ts";
import { beginTrialSweep } from "./vm/trials.ts";
import { Tasks } from "./tasks.ts";
import { Templates } from "./vm/templates.ts";
import { Witnesses } from "./record/witness.ts";
import { Updates } from "./updates.ts";
import { isAlive, type Vm } from "./vm/vm.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../base/error/mod.ts";
import { backgroundInterval, backgroundTimeout } from "../base/time/mod.ts";

/** The configuration of one home. */
export interface Configuration {
  home: Home;
  settings: SettingsStore;
  corp: CorpStore;
}

/**
 * The parts that serve one home, connected to each other. Each takes only the parts
 * that it needs, and so do routes.
 */
export class Service implements Configuration {
  readonly home: Home;
  readonly settings: SettingsStore;
  readonly corp: CorpStore;
  readonly registry: Registry;
  readonly bin: Bin;
  readonly sessions: Sessions;
  readonly witnesses: Witnesses;
  readonly notices = new Notices();
  readonly hypervisor: Hypervisor = hostHypervisor();
  readonly accelerators: AcceleratorChooser;
  readonly tasks: Tasks;
  readonly templates: Templates;
  readonly supervisor: Supervisor;
  readonly records: HostRecords;
  readonly images: Images;
  readonly snapshots: Snapshots;
  readonly states: States;
  readonly idle: IdleVms;
  readonly refresh: ContractRefresh;
  readonly asks: AskInbox;
  readonly mcp: ProfileMcp;
  readonly rules: Rules;
  readonly inForce: ProfilesInForce;
  readonly detections: Detections;
  readonly activeDetections: ActiveDetections;
  readonly findings: FindingExport;
  readonly triage: FindingTriage;
  readonly fleet: FleetShipping;
  readonly feeds: EventFeeds;
  readonly bundles: FleetBundles;
  readonly room: RecordRoom;
  readonly standing: ReleaseStanding;
  readonly updates: Updates;
  readonly metrics: ServiceMetrics;
  readonly #contacts: Contacts;
  readonly loginStart: LoginStart;
  readonly secrets: SecretPrograms;
  readonly #watches: Disposable[] = [];
  /** while it watches */
  #findingNotifier?: FindingNotifier;

  constructor({ home, settings, corp }: Configuration) {
    this.home = home;
    this.settings = settings;
    this.corp = corp;
    this.registry = new Registry(home);
    this.bin = new Bin(home);
    this.sessions = new Sessions(home);
    this.witnesses = new Witnesses(home);
    this.accelerators = new AcceleratorChooser(home, this.hypervisor);
    this.tasks = new Tasks(home, this.notices);
    this.templates = new Templates(this);
    this.detections = new Detections(home);
    this.findings = new FindingExport(home, settings, corp, this.sessions);
    this.triage = new FindingTriage(home, this.sessions, this.findings);
    this.fleet = new FleetShipping(this);
    this.feeds = new EventFeeds(this);
    this.bundles = new FleetBundles(this);
    this.room = new RecordRoom(this);
    this.standing = new ReleaseStanding(home);
    this.updates = new Updates({ home, settings, corp });
    const onNotice = ({ record }: Pick<Vm, "record">, notice: ProcessNotice) => {
      // The answer to an ask belongs to its findings.
      if (notice.type === "finding" || notice.type === "ask") this.findings.queueSession(record.id);
      if (notice.type === "finding") {
        this.#findingNotifier?.take(record.name, notice.payload as unknown as Finding);
      }
      this.notices.publish(notice);
    };
    const { sessions, witnesses } = this;
    this.records = new HostRecords({ home, settings, corp, sessions, witnesses, onNotice });
    this.secrets = new SecretPrograms(home, this.registry);
    this.supervisor = new Supervisor({
      home,
      secrets: this.secrets,
      settings,
      corp,
      detections: this.detections,
      standing: this.standing,
      registry: this.registry,
      bin: this.bin,
      sessions,
      witnesses,
      notices: this.notices,
      hypervisor: this.hypervisor,
      accelerators: this.accelerators,
      templates: this.templates,
      onNotice,
      onTurn: (vm, { turn, at_unix_ms }) => void this.states.turn(vm, turn, at_unix_ms),
    });
    this.images = new Images({
      home,
      registry: this.registry,
      bin: this.bin,
      spareAssets: () => this.supervisor.spareAssets,
      cleanTemplates: () => this.templates.clean(),
    });
    this.snapshots = new Snapshots(this);
    this.states = new States(this);
    this.idle = new IdleVms(this);
    this.refresh = new ContractRefresh(this);
    this.asks = new AskInbox(this.registry);
    this.mcp = new ProfileMcp(this);
    this.rules = new Rules(home, corp);
    this.inForce = new ProfilesInForce(this);
    this.activeDetections = new ActiveDetections(this);
    this.metrics = new ServiceMetrics(this);
    this.#contacts = new Contacts(this);
    this.loginStart = new LoginStart(home, settings);
  }

  /** Finds the VMs of earlier runs, and activates corp's changes since then in them. */
  async load(): Promise<void> {
    useHostNetwork(networkOf(this.settings));
    await this.supervisor.load();
    this.#logCorp();
    await this.refresh.refreshCorp();
    await this.refresh.checkDetections();
    ifFound(this.findings.begin()).catch((error) => log.warn("exporting findings:", error));
  }

  /** Follows changes of corp and of the settings, until {@linkcode close}. */
  watch(): void {
    const notifier = new AskNotifier({
      isOn: () => this.settings.resolved.byId.get("app.notifications")?.effective_value === true,
      nameOf: (session) =>
        this.registry.all().find(({ record }) => record.id === session)?.record.name ?? session,
      answer: ({ ask_id, digest }, decision) =>
        this.asks.resolve(ask_id, { decision, scope: "once", digest }, {
          user: userName(),
          client: "notification",
        }),
      board: openBoard,
      report: (problem) => log.warn(`desktop notifications cannot be shown: ${problem}`),
    });
    this.#watches.push({ [Symbol.dispose]: this.notices.listen((notice) => notifier.take(notice)) });
    this.#findingNotifier = new FindingNotifier({
      isOn: () => this.settings.resolved.byId.get("app.notifications")?.effective_value === true,
      least: () => alertSeverity(this.settings),
      board: openBoard,
      report: (problem) => log.warn(`desktop notifications cannot be shown: ${problem}`),
    });
    this.#watches.push(
      watchCorp(this.corp, async () => {
        this.#publishCorp();
        await this.refresh.refreshCorp();
        await this.refresh.checkDetections();
        this.findings.reconfigure();
      }),
      watchFolder(this.detections.packs, [this.detections.off.path], () => {
        this.activeDetections.reload().catch((error) => log.warn("reading the packs:", error));
      }),
      this.settings.watch((ids) => {
        this.notices.publish({ type: "settings-changed", payload: { ids } });
        if (ids.some((id) => id.startsWith("network."))) useHostNetwork(networkOf(this.settings));
        if (ids.some((id) => id.startsWith("ledger."))) this.refresh.refreshLedgers();
        if (ids.some((id) => /^(telemetry|alerts)\./.test(id))) this.findings.reconfigure();
        if (ids.includes("app.start_service_at_login")) this.loginStart.apply();
      }),
    );
  }

  /** Begins the work of a service that clients can reach: pid file, accelerator and maintenance. */
  async begin(): Promise<void> {
    await writePidFile(this.home.servicePidFile);
    // Ahead of the first VM, which would wait for it. Without assets the first VM chooses it.
    this.accelerators.choose().catch(ignore("the first VM chooses it, and reports the failure"));
    ensureMachineKey(this.home);
    this.templates.clean().then(() => this.images.pruneOld()).catch((error) => log.warn(error));
    startMaintenance(this);
    this.updates.begin();
    this.loginStart.apply();
    this.rules.noticeFiles().catch((error) => log.warn("changes of rules are not recorded:", error));
    this.fleet.begin();
    this.feeds.begin();
    this.bundles.begin();
    this.snapshots.begin();
    this.bin.begin();
    beginTrialSweep(this);
    this.idle.watch();
    this.secrets.provideAll();
    const still = this.registry.all().filter(({ state }) => !isAlive(state)).map(({ record }) => record.id);
    this.witnesses.load(still).catch((error) => log.warn("comparing records:", error));
  }

  /** Notifies listeners and the log of the state of corp.toml. */
  #publishCorp(): void {
    const { state } = this.corp;
    const summary = corpSummary(this.corp);
    this.notices.publish({ type: "corp-changed", payload: { status: state.status, summary } });
    if ("error" in state) this.#logCorp();
    else log.info(`corp configuration: ${summary}`);
  }

  /** Logs for the administrator why corp.toml is not active. */
  #logCorp(): void {
    const { state } = this.corp;
    if ("error" in state) log.warn(`${corpSummary(this.corp)}: ${state.error.message}`);
  }

  async close(): Promise<void> {
    for (const watch of this.#watches) watch[Symbol.dispose]();
    this.updates.close();
    this.tasks.close();
    this.secrets.close();
    this.bundles.close();
    await Promise.all(this.registry.all().map(({ still }) => still?.close()));
    await Promise.all([
      this.findings.close(),
      this.fleet.close(),
      this.feeds.close(),
      this.supervisor.close(),
      this.#contacts.close(),
      this.witnesses.close(),
    ]);
    const { servicePidFile } = this.home;
    if (namesThisProcess(servicePidFile)) removeIfThere(servicePidFile);
  }
}

/** `ms` between attempts to write a pid file that could not be written. */
const RETRY_MS = 1000;

/**
 * Writes the id of this process. A full disk does not end the service, which can free
 * space: it tries again until it can.
 */
async function writePidFile(path: string): Promise<void> {
  try {
    await writeAtomic(path, `${Deno.pid}\n`);
  } catch (error) {
    log.warn(asSbxError(error, `writing ${path}`).message);
    backgroundTimeout(() => writePidFile(path), RETRY_MS);
  }
}

/**
 * Makes the key with which VMs sign their records, if it is missing, and proves to root that it is this
 * user's; without it, seals are unsigned.
 */
async function ensureMachineKey(home: Home): Promise<void> {
  try {
    const key = await (await import("../release/signing/mod.ts")).ensureSigningKey(home);
    await (await import("../fleet/enrolment/mod.ts")).ensureHomeProof(home, key);
  } catch (error) {
    log.warn(`records are not signed: ${asSbxError(error, "reading the key of this machine").message}`);
  }
}

/** Longest wait for the lock, in `ms`: a service that is ending releases it at once. */
const LOCK_DEADLINE_MS = 1000;

/**
 * Takes the run folder's lock, until the returned file is closed; the kernel
 * releases it however this process ends.
 *
 * @throws {SbxError} `service.conflict`: another service holds it
 */
export async function takeLock(home: Home): Promise<Deno.FsFile> {
  const file = await Deno.open(home.serviceLockFile, { create: true, read: true, write: true, mode: 0o600 });
  if (await lockWithin(file, LOCK_DEADLINE_MS)) return file;
  file.close();
  const pid = await Deno.readTextFile(home.servicePidFile).catch(() => "unknown");
  throw new SbxError("service.conflict", `another sbx-service (pid ${pid.trim()}) runs on ${home.runDir}`, {
    hint: "sbx status shows it; SBX_RUN_DIR names another folder for a second one",
  });
}

const RETENTION_SETTING = "vm.resources.retention_days";
/** `ms` to the first removal of old sessions, past the busy start of the service, and between removals. */
const PRUNE_DELAY_MS = 10_000;
const PRUNE_INTERVAL_MS = 24 * 3600 * 1000;
/** `ms` between attempts to send ledgers of ended sessions to a collecting server that was away. */
const COLLECT_INTERVAL_MS = 60_000;

/** The parts of the service that are maintained. */
interface MaintenanceParts {
  home: Home;
  registry: Registry;
  bin: Pick<Bin, "list">;
  sessions: Sessions;
  settings: SettingsStore;
  corp: Pick<CorpStore, "state">;
  fleet: Pick<FleetShipping, "release">;
  feeds: Pick<EventFeeds, "release">;
  room: RecordRoom;
}

/** `ms` between checks of the room that all records take. */
const ROOM_INTERVAL_MS = 600_000;

/**
 * Starts the timers that remove old sessions and collect the ledgers of ended
 * ones; they keep no process alive.
 */
function startMaintenance(
  { home, registry, bin, sessions, settings, corp, fleet, feeds, room }: MaintenanceParts,
): void {
  const idsOf = (vms: ReturnType<Registry["all"]>) => new Set(vms.map(({ record }) => record.id));
  const prune = async () => {
    const days = settings.inForce(RETENTION_SETTING);
    if (typeof days === "number") {
      const deleted = await bin.list().catch(() => []);
      const existing = new Set([...idsOf(registry.all()), ...deleted.map(({ id }) => id)]);
      const release = async (id: string) => {
        const isExported = await room.exportFirst(id).then(() => true, ({ message }) => {
          log.warn(message);
          return false;
        });
        return isExported && await fleet.release(id) && await feeds.release(id);
      };
      sessions.prune(days, existing, { release, holds: (entry) => isHeld(corp.state, entry) });
    }
  };
  backgroundTimeout(prune, PRUNE_DELAY_MS);
  backgroundInterval(prune, PRUNE_INTERVAL_MS);
  const check = () => room.collect(false).catch((error) => log.warn("the room of records:", error));
  backgroundTimeout(check, PRUNE_DELAY_MS);
  backgroundInterval(check, ROOM_INTERVAL_MS);
  const bound = () => boundLogs(home).catch((error) => log.warn("the logs of this home:", error));
  backgroundTimeout(bound, PRUNE_DELAY_MS);
  backgroundInterval(bound, COLLECT_INTERVAL_MS);
  backgroundInterval(() => sessions.collect(idsOf(registry.alive())), COLLECT_INTERVAL_MS);
}
