/** A whole sbx of its own for a test: its own home, service and gateway, the real CLI, and real VMs. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { limitChild, runChild } from "./child.ts";
import { Followed } from "./followed.ts";
import { fromRoot } from "./repo.ts";
import type { Parsed } from "./json.ts";

/** Time limit of one command in `ms`: it may boot a VM, or install assets. */
const RUN_LIMIT_MS = 300_000;

/** Output of a command. */
export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * The assets that `make image` installed, where scripts/image.sh puts them, or
 * those that the environment names.
 */
export function assetsDir(): string {
  const { env } = Deno;
  return env.get("SBX_TEST_ASSETS_DIR") ?? env.get("SBX_ASSETS_DIR") ??
    join(env.get("SBX_HOME") ?? join(env.get("HOME") ?? "/root", ".sbx"), "assets");
}

export class Sbx {
  readonly home: string;
  readonly env: Record<string, string>;
  #programs: string;

  private constructor(home: string, env: Record<string, string>, programs: string) {
    this.home = home;
    this.env = env;
    this.#programs = programs;
  }

  /**
   * A new home. Nothing runs in it until a command starts it.
   *
   * @param options.programs folder of the launchers: bin, or dist for a compiled build
   * @param options.spare false: no machine is started ahead, for a test that counts machines
   */
  static async make(
    options: {
      assets?: string;
      env?: Record<string, string>;
      programs?: string;
      home?: string;
      spare?: boolean;
    } = {},
  ): Promise<Sbx> {
    const assets = options.assets ?? assetsDir();
    const installed = await Deno.stat(join(assets, "manifest.json")).catch(() => null);
    if (!installed) {
      throw new Error(
        `e2e tests boot VMs and need the assets that make image installs (looked in ${assets})`,
      );
    }
    const home = options.home ?? await Deno.makeTempDir({ prefix: "sbx-" });
    if (options.spare === false) {
      await Deno.writeTextFile(
        join(home, "settings.toml"),
        '[settings."vm.templates.spare"]\nvalue = false\n',
      );
    }
    const env = {
      SBX_HOME: home,
      SBX_ASSETS_DIR: assets,
      // One folder for all: the first VM of a run boots, and later ones start from its template.
      SBX_TEMPLATES_DIR: fromRoot(".cache/templates"),
      SBX_GATEWAY_PORT: "0",
      NO_COLOR: "1",
      ...options.env,
    };
    return new Sbx(home, env, options.programs ?? fromRoot("bin"));
  }

  /** Runs `sbx` with these arguments. */
  cli(...args: string[]): Promise<Ran> {
    return this.run("sbx", args);
  }

  /** Starts `sbx` with these arguments; what it prints is followed while it runs. */
  follow(...args: string[]): Followed {
    return new Followed(limitChild(
      new Deno.Command(join(this.#programs, "sbx"), {
        args,
        env: this.env,
        stdin: "null",
        stdout: "piped",
        stderr: "null",
      }).spawn(),
      RUN_LIMIT_MS,
    ));
  }

  /** Runs one of the programs. */
  async run(program: string, args: string[], env: Record<string, string> = {}): Promise<Ran> {
    const options = { args, env: { ...this.env, ...env } };
    const { code, stdout, stderr } = await runChild(join(this.#programs, program), options, RUN_LIMIT_MS);
    return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
  }

  /** Runs `sbx`, which must succeed. @returns standard output */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cli(...args);
    if (code !== 0) throw new Error(`sbx ${args.join(" ")} → ${code}\n${stdout}${stderr}`);
    return stdout;
  }

  get base(): string {
    return `http://127.0.0.1:${this.read("run/gateway.port").trim()}`;
  }

  get token(): string {
    return this.read("run/gateway.token").trim();
  }

  /** A request through the gateway, with its token. */
  fetch(path: string, init: RequestInit & { json?: unknown } = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("authorization", `Bearer ${this.token}`);
    if (init.json !== undefined) headers.set("content-type", "application/json");
    return fetch(this.base + path, {
      ...init,
      headers,
      body: init.json === undefined ? init.body : JSON.stringify(init.json),
    });
  }

  /** JSON of a request through the gateway. */
  async api(method: string, path: string, json?: unknown): Promise<{ status: number; body: Parsed }> {
    const response = await this.fetch(path, { method, json });
    return { status: response.status, body: await response.json() };
  }

  /** A file of the home. */
  read(path: string): string {
    return Deno.readTextFileSync(join(this.home, path));
  }

  pid(role: "service" | "gateway"): number {
    return Number(this.read(`run/${role}.pid`));
  }

  /**
   * Pids of this home's programs of one kind: their command line or their parent's
   * names the home or a session of it.
   */
  async pids(program: string, session: string): Promise<number[]> {
    const found: number[] = [];
    for await (const { name } of Deno.readDir("/proc")) {
      if (!/^\d+$/.test(name)) continue;
      const line = (await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "")).split("\0");
      if (line.some((part) => part.includes(program)) && line.some((part) => part.includes(session))) {
        found.push(Number(name));
      }
    }
    return found;
  }

  /** Everything that still runs for one session. */
  async left(session: string): Promise<string[]> {
    const programs = await this.pids("", session);
    const sockets = await Array.fromAsync(Deno.readDir(join(this.home, "run/instances")), ({ name }) => name)
      .catch(() => []);
    return [...programs.map((pid) => `pid ${pid}`), ...sockets.filter((name) => name.includes(session))];
  }

  /** Ids of the sessions whose machines were started ahead. */
  spareMachines(): string[] {
    const sessions = join(this.home, "sessions");
    // One that is not used is removed at any moment.
    return Array.from(Deno.readDirSync(sessions), ({ name }) => name)
      .filter((name) => existsSync(join(sessions, name, "spare")));
  }

  /**
   * Stops what runs and removes the home; what a VM left that failed is shown,
   * since nothing else of it remains.
   */
  async dispose(): Promise<void> {
    showFailures(join(this.home, "sessions"));
    await this.cli("stop", "--all");
    await Deno.remove(this.home, { recursive: true });
  }
}

/** Most characters of each log of a VM that failed. */
const LOG_SHOWN = 2000;

function showFailures(sessions: string): void {
  if (!existsSync(sessions)) return;
  for (const { name } of Deno.readDirSync(sessions)) {
    const session = join(sessions, name);
    try {
      const { last_error } = JSON.parse(Deno.readTextFileSync(join(session, "state.json")));
      if (last_error === undefined) continue;
      console.log(`${session}: ${last_error}`);
      for (const { name } of Deno.readDirSync(join(session, "logs"))) {
        const text = Deno.readTextFileSync(join(session, "logs", name));
        if (text !== "") console.log(`-- ${name}\n${text.slice(-LOG_SHOWN)}`);
      }
    } catch {
      // No session, or a spare that nobody used, which is removed at any moment.
    }
  }
}

/**
 * Tries until `check` is true, for at most `seconds`; a machine under load takes its
 * time, and may stand still for some.
 */
export async function eventually(
  what: string,
  check: () => boolean | Promise<boolean>,
  seconds = 180,
): Promise<void> {
  for (const deadline = Date.now() + seconds * 1000; Date.now() < deadline;) {
    const begun = performance.now();
    if (await check()) return;
    // As long as the check took: one that runs a program leaves a processor to the guest it waits for.
    const pause = Math.max(50, performance.now() - begun);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
  throw new Error(`it never came true that ${what}`);
}
