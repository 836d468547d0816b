/**
 * The whole service and its API over a VM whose programs run on this machine: /workspace is a folder of the
 * home. The VM's process is served here, so that a test can be an agent that has a turn.
 */
import { basename, dirname, join } from "node:path";
import { makeApp } from "../../cmd/service/app.ts";
import { VmGuest } from "../../cmd/sbx/files/repository.ts";
import { home as homeOf } from "../../lib/base/home/mod.ts";
import { Client } from "../../lib/client/mod.ts";
import { CorpStore } from "../../lib/config/corp/mod.ts";
import { loadDefinitions, SettingsStore } from "../../lib/config/settings/mod.ts";
import { Service } from "../../lib/service/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../lib/session/mod.ts";
import { type Call, type Caller, CallServer, type Reply, type ReplyTo } from "../../lib/session/ipc/mod.ts";
import { runChild } from "./child.ts";
import { recordOf } from "./vm.ts";

const INFO = { state: "Running" as const, boot_stages: [], pid: 1 };

export class RepositoryVm implements AsyncDisposable {
  /** files of the guest that left it, by the event of their record: asked about, or only observed */
  readonly exports: ["asked" | "observed", path: string][] = [];
  /** decisions by which asks were answered */
  readonly answers: string[] = [];
  readonly #asks: ReplyTo<"Resolve">["ask"][] = [];
  readonly #kept = new Map<string, () => void>();
  #watcher?: Caller;

  private constructor(
    /** folder with all of the test */
    readonly dir: string,
    readonly service: Service,
    readonly client: Client,
    readonly paths: ReturnType<typeof sessionPaths>,
    readonly ends: (() => Promise<void>)[],
  ) {}

  static async make(): Promise<RepositoryVm> {
    const dir = await Deno.realPath(await Deno.makeTempDir({ prefix: "sbx-" }));
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? join(dir, "home") : undefined });
    const id = crypto.randomUUID();
    const paths = sessionPaths(home, id);
    for (const path of [paths.workspace, paths.snapshots, dirname(paths.socket), join(dir, "guest")]) {
      await Deno.mkdir(path, { recursive: true });
    }
    await writeRecord(paths, recordOf(id, "dev"));
    await writeState(paths, INFO);
    const corp = new CorpStore(home, { managed: join(dir, "corp.toml") });
    const definitions = await loadDefinitions({ get: () => undefined });
    const settings = await SettingsStore.open({ home, corp, definitions });
    const service = new Service({ home, corp, settings });
    const app = makeApp(service);
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, app.fetch);
    const http = Deno.createHttpClient({});
    const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
    const vm: RepositoryVm = new RepositoryVm(dir, service, client, paths, []);
    const watched = Promise.withResolvers<void>();
    const listener = Deno.listen({ transport: "unix", path: paths.socket });
    const process = new CallServer(listener, (call, caller) => vm.#serve(call, caller, watched.resolve));
    vm.ends.push(() => Promise.resolve(http.close()), () => server.shutdown(), () => process.close());
    await service.supervisor.load();
    await watched.promise;
    return vm;
  }

  /** The VM as the commands have it, over the API. */
  get guest(): VmGuest {
    return new VmGuest(this.client, "dev");
  }

  get room(): string {
    return this.paths.repository;
  }

  /** A folder of the guest. */
  inside(name: string): string {
    return join(this.dir, "guest", name);
  }

  /** A turn of an agent begins. @returns resolves when its model call goes on */
  async turn(at_unix_ms = Date.now()): Promise<void> {
    const turn = crypto.randomUUID();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#kept.set(turn, resolve);
    await this.#watcher!.reply({ t: "Turn", turn, at_unix_ms });
    await promise;
  }

  /** An event waits for an answer. */
  async ask(ask_id: string): Promise<void> {
    const ask = {
      ask_id,
      digest: `digest of ${ask_id}`,
      session_id: basename(this.paths.dir),
      event_id: "0123456789ab",
      event_type: "http.request" as const,
      subject: "GET https://a.example/",
      rule_id: "r",
      reason: "r",
      created_at: new Date().toISOString(),
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
      status: "pending" as const,
    };
    this.#asks.push(ask);
    await this.#watcher!.reply({ t: "Notice", type: "ask", payload: ask });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const end of this.ends) await end().catch(() => {});
    await this.service.sessions.list();
    await Deno.remove(this.dir, { recursive: true });
  }

  async #serve(call: Call, caller: Caller, onWatch: () => void): Promise<void> {
    if (call.t === "Watch") {
      this.#watcher = caller;
      await caller.reply({ t: "Info", info: INFO });
      onWatch();
      return void await caller.input();
    }
    if (call.t === "Terminal") {
      for (const text of ["", "shown\n"]) {
        await caller.reply({ t: "Output", stream: "stdout", data: btoa(text) });
      }
      // A program's terminal ends by itself; the VM's own one when its client leaves.
      if (call.argv) return;
      while (await caller.input() !== null);
      return;
    }
    if (call.t === "Resolve") {
      this.answers.push(call.decision);
      const [ask] = this.#asks.splice(this.#asks.findIndex(({ ask_id }) => ask_id === call.ask_id), 1);
      return await caller.reply({ t: "Ask", ask });
    }
    if (call.t === "Exec") return await runInGuest(call.argv, this.paths.workspace, caller);
    if (call.t === "DecideFile" || call.t === "ObserveFile") {
      if (call.operation === "export") {
        this.exports.push([call.t === "DecideFile" ? "asked" : "observed", call.path]);
      }
    }
    if (call.t === "TurnKept") this.#kept.get(call.turn)?.();
    const reply: Reply = call.t === "DecideFile"
      ? { t: "FileDecided", event_id: "0123456789ab" }
      : call.t === "Info"
      ? { t: "Info", info: INFO }
      : call.t === "Asks"
      ? { t: "Asks", asks: this.#asks, decided: [] }
      : { t: "Ok" };
    await caller.reply(reply);
  }
}

/** Exit code of a program that is not there. */
const CANNOT_RUN = 126;

/**
 * Runs a program as the agent of a guest does, on this machine.
 * @param workspace folder that is /workspace
 */
export async function runInGuest(argv: string[], workspace: string, caller: Caller): Promise<void> {
  const inHere = argv.map((word) => word.replace(/^\/workspace(?=\/|$)/, workspace));
  const { code, stdout, stderr } = await runChild(inHere[0], {
    args: inHere.slice(1),
    cwd: "/",
    env: { PATH: Deno.env.get("PATH")!, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    clearEnv: true,
  }, 120_000).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    return {
      code: CANNOT_RUN,
      stdout: new Uint8Array(),
      stderr: new TextEncoder().encode("cannot run it\n"),
    };
  });
  for (const [stream, bytes] of [["stdout", stdout], ["stderr", stderr]] as const) {
    if (bytes.length > 0) await caller.reply({ t: "Output", stream, data: bytes.toBase64() });
  }
  await caller.reply({
    t: "Exited",
    exit_code: code,
    truncated: false,
    duration_ms: 1,
    event_id: "0123456789ab",
  });
}
