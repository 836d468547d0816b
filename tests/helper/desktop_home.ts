/**
 * The desktop page in Chromium on the real service, its API and the gateway's own code, over a home with the
 * VM `dev`. The VM's process is served here: it has a real gate, record and queue of asks, and no machine.
 */
import { dirname, join } from "node:path";
import { makeApp } from "../../cmd/service/app.ts";
import { type Home, home as homeOf } from "../../lib/base/home/mod.ts";
import {
  desktopFolder,
  DesktopGate,
  DesktopPage,
  gatewayHandler,
  GatewayRun,
  methodMatcher,
  ROUTES,
  Sessions,
  TokenGate,
  Upstream,
} from "../../lib/client/gateway/mod.ts";
import { Client } from "../../lib/client/mod.ts";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { compileLayers } from "../../lib/policy/mod.ts";
import { Service } from "../../lib/service/mod.ts";
import { detectionsOf, sessionPaths, writeRecord, writeState } from "../../lib/session/mod.ts";
import type { ResponseTerms } from "../../lib/detection/response/mod.ts";
import { SessionGate, withdrawAnswer } from "../../lib/session/gate/mod.ts";
import {
  type Call,
  type Caller,
  CallServer,
  type MachineInfo,
  type Reply,
} from "../../lib/session/ipc/mod.ts";
import { Responder } from "../../lib/session/response.ts";
import { DesktopBrowser } from "./browser.ts";
import { contractOf } from "./session_gate.ts";
import { recordOf } from "./vm.ts";

/** A session that is over: its id, its name and its record. */
export interface Past {
  id: string;
  name: string;
  write(ledger: Ledger): void;
}

/** Answers to calls, by their kind. */
export type Served = Partial<
  { [K in Call["t"]]: (call: Extract<Call, { t: K }>, caller: Caller, home: DesktopHome) => Promise<void> }
>;

export class DesktopHome implements AsyncDisposable {
  readonly #ends: (() => Promise<unknown> | void)[] = [];
  readonly #listeners = new Set<Caller>();
  /** the VM that runs */
  readonly id: string = crypto.randomUUID();
  desktop!: DesktopBrowser;
  gate!: SessionGate;
  ledger!: Ledger;
  #info: MachineInfo = { state: "Running", boot_stages: [], pid: 1 };
  #responder!: Responder;
  service!: Service;
  url = "";
  #answers: Served = {};
  #issue!: () => Promise<string>;
  #socket = "";
  #stopService!: () => Promise<void>;

  private constructor(readonly dir: string, readonly home: Home) {}

  /** @param rules of the profile of `dev`, as TOML of the file of rules */
  static async make(
    { rules = "", past = [], response = {}, prepare, serve = {}, isBare = false }: {
      rules?: string;
      /** answers to findings of `dev` */
      response?: ResponseTerms;
      past?: Past[];
      /** fills the home before the service starts */
      prepare?: (home: Home) => Promise<void>;
      /** calls to the VM's process that a test answers itself */
      serve?: Served;
      /** the service alone, without the gateway and a browser */
      isBare?: boolean;
    } = {},
  ): Promise<DesktopHome> {
    const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "sbx-" }));
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
    const made = new DesktopHome(dir, home);
    made.#answers = serve;
    try {
      await prepare?.(home);
      await made.#open(rules, past, response);
      if (!isBare) await made.#openPage();
    } catch (error) {
      await made[Symbol.asyncDispose]();
      throw error;
    }
    return made;
  }

  async #open(rules: string, past: Past[], response: ResponseTerms): Promise<void> {
    for (const { id, write } of past) {
      const paths = sessionPaths(this.home, id);
      await Deno.mkdir(dirname(paths.ledger), { recursive: true });
      await using ledger = await Ledger.open(paths.ledger, { sessionId: id });
      write(ledger);
    }
    const paths = sessionPaths(this.home, this.id);
    for (
      const path of [
        this.home.runDir,
        paths.workspace,
        paths.snapshots,
        dirname(paths.socket),
        dirname(paths.ledger),
      ]
    ) {
      await Deno.mkdir(path, { recursive: true });
    }
    await writeRecord(paths, recordOf(this.id, "dev"));
    await writeState(paths, this.#info);
    const contract = contractOf(rules);
    this.ledger = await Ledger.open(paths.ledger, { sessionId: this.id });
    this.#ends.unshift(() => this.ledger.close());
    this.#responder = new Responder(paths.response, "dev", response);
    this.gate = new SessionGate({
      hold: this.#responder,
      session: { id: this.id, profile_id: "code", profile_revision: "1.0.0" },
      policy: compileLayers(contract),
      detections: detectionsOf(contract),
      recorder: this.ledger,
      tell: (notice) => void this.#tell(notice),
      scrubValue: (value) => value,
    });
    this.#ends.unshift(() => this.gate.close());
    const still = (state: MachineInfo["state"]) => Promise.resolve(this.#show({ state }));
    this.#responder.attach({
      gate: this.gate,
      snapshot: () => Promise.reject(new Error("there is no disk")),
      cut() {},
      machine: {
        pause: () => still("Paused"),
        suspend: () => Promise.reject(new Error("there is no machine")),
      },
      show: (response) => this.#show({ response }),
    });
    const listener = Deno.listen({ transport: "unix", path: paths.socket });
    const process = new CallServer(listener, (call, caller) => this.#serve(call, caller));
    this.#ends.unshift(() => process.close());
    this.#socket = join(this.dir, "s");
    await this.startService();
    this.#ends.unshift(() => this.#stopService());
    this.service.sessions.put(recordOf(this.id, "dev"));
    for (const { id, name } of past) this.service.sessions.put(recordOf(id, name));
  }

  async #openPage(): Promise<void> {
    await this.#openGateway();
    this.desktop = await DesktopBrowser.launch();
    this.#ends.unshift(() => this.desktop.browser.close());
    await this.signIn();
  }

  /** Starts the service of the home, which finds the VM running. */
  async startService(): Promise<void> {
    const corp = new CorpStore(this.home, { managed: join(this.dir, "corp.toml") });
    const definitions = await loadDefinitions({ get: () => undefined });
    const settings = await SettingsStore.open({ home: this.home, corp, definitions });
    const service = this.service = new Service({ home: this.home, corp, settings });
    await service.supervisor.load();
    const stop = new AbortController();
    const server = Deno.serve(
      { path: this.#socket, onListen() {}, signal: stop.signal },
      makeApp(service).fetch,
    );
    this.#stopService = async () => {
      // Connections of the page are cut as by the end of a process.
      for (const cut of this.#cuts.splice(0)) cut();
      stop.abort();
      await server.finished;
      await service.sessions.list();
    };
  }

  readonly #cuts: (() => void)[] = [];

  /** Ends the service; the VM and the gateway go on. */
  stopService(): Promise<void> {
    return this.#stopService();
  }

  async #openGateway(): Promise<void> {
    const run = await GatewayRun.make();
    const gate = new DesktopGate(run, new Sessions(), new DesktopPage(desktopFolder()));
    const socketClient = Deno.createHttpClient({ proxy: { transport: "unix", path: this.#socket } });
    const upstream = new Upstream(this.#socket);
    const server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      gatewayHandler({
        gate: new TokenGate("token"),
        desktop: gate,
        methodsOf: methodMatcher(ROUTES),
        upstream,
        socketClient,
        version: "0",
        log: { error: console.error, debug() {} },
      }),
    );
    this.#ends.unshift(() => server.shutdown().catch(() => {}), () => socketClient.close());
    this.url = `http://${run.hostname}:${server.addr.port}/desktop/`;
    this.#issue = async () => (await gate.issue().json()).code;
  }

  /** Files of the VM. */
  get paths(): ReturnType<typeof sessionPaths> {
    return sessionPaths(this.home, this.id);
  }

  /** The service's API, past the gateway. @param work gets its client */
  async withClient<T>(work: (client: Client) => Promise<T>): Promise<T> {
    using http = Deno.createHttpClient({ proxy: { transport: "unix", path: this.#socket } });
    return await work(new Client("http://localhost", undefined, http));
  }

  /** Asks the service itself, past the gateway. */
  async ask(method: string, path: string, json: unknown): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return await makeApp(this.service).request(path, { method, headers, body: JSON.stringify(json) });
  }

  /** Signs the browser in with a new code. */
  async signIn(): Promise<void> {
    const { page } = this.desktop;
    await page.goto(`${this.url}#code=${await this.#issue()}`);
    await page.locator("main h1").first().waitFor();
  }

  async #tell(notice: { type: "security-event" | "finding" | "ask"; payload: unknown }): Promise<void> {
    const payload = structuredClone(notice.payload) as Record<string, unknown>;
    for (const caller of this.#listeners) {
      await caller.reply({ t: "Notice", type: notice.type, payload }).catch(() => {
        this.#listeners.delete(caller);
      });
    }
  }

  #show(change: Partial<MachineInfo>): void {
    this.#info = { ...this.#info, ...change };
    for (const caller of this.#listeners) caller.reply({ t: "Info", info: this.#info }).catch(() => {});
  }

  async #serve(call: Call, caller: Caller): Promise<void> {
    if (call.t === "Lift") {
      this.#responder.lift(call.by);
      return await caller.reply({ t: "Info", info: this.#info });
    }
    if (call.t === "Watch") {
      await caller.reply({ t: "Info", info: this.#info });
      this.#listeners.add(caller);
      return void await caller.input();
    }
    const answer = this.#answers[call.t] as Served["Exec"] | undefined;
    if (answer) return await answer(call as Extract<Call, { t: "Exec" }>, caller, this);
    if (call.t === "Resolve") {
      const { t: _, ask_id, by, digest, ...answer } = call;
      return await caller.reply({ t: "Ask", ask: this.gate.asks.resolve(ask_id, answer, by, digest) });
    }
    if (call.t === "Withdraw") {
      return await caller.reply({ t: "Withdrawn", ask: withdrawAnswer(this.gate, call.ask_id, call.by) });
    }
    // The service asks before it reads: an event that a message named can then be read.
    if (call.t === "Flush") await this.ledger.flush();
    const { asks } = this.gate;
    const reply: Reply = call.t === "Asks"
      ? { t: "Asks", asks: asks.pending(), decided: asks.decidedByRules() }
      : call.t === "AsksInForce"
      ? { t: "AsksInForce", asks: asks.inForce() }
      : call.t === "Info"
      ? { t: "Info", info: this.#info }
      : call.t === "Counters"
      ? { t: "Counters", counters: this.gate.counters() }
      : { t: "Ok" };
    await caller.reply(reply);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.#ends) await Promise.resolve(end()).catch(() => {});
    await Deno.remove(this.dir, { recursive: true });
  }
}
