import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { resolve } from "node:path";
import type { ConnectOptions } from "./address.ts";
import { type AskCallback, AskHandler } from "./asks.ts";
import { Client } from "./client.ts";
import { ProgramError, SbxError } from "./error.ts";
import { segment, sleep } from "./http.ts";
import {
  type ExecOptions,
  type ExecResult,
  Program,
  programBody,
  type ProgramOptions,
  readProgram,
} from "./program.ts";
import { Pty, terminalError } from "./pty.ts";
import type * as shapes from "./shapes.ts";

/** First and longest time between two looks at a boot, in `ms`. */
const POLL_MS = 20, POLL_MAX_MS = 250;
/** Times that a VM is made which a restart of the service removed. */
const CREATE_TRIES = 3;
/** Longest wait of one request for events, in `s`. */
const WAIT_SECS = 30;
/** VMs of one request for their list. */
const LISTED_AT_ONCE = 500;
/** Most output of `sbx image build`, in `bytes`. */
const PRINTED_MAX = 64 * 1024 * 1024;

/** The sbx: a connection, or how to make one. */
export interface On {
  client?: Client;
  connect?: ConnectOptions;
}

/** A new VM. */
export interface CreateOptions extends On {
  name?: string;
  /** id of a profile; default code */
  profile?: string;
  /** OCI image that this home has */
  image?: string;
  /**
   * folder with a Dockerfile, or the file itself, which `sbx image build` makes
   * an image of; this machine only
   */
  dockerfile?: string;
  /** git repository or folder of the sbx's machine, which is brought in */
  repo?: string | { dir: string; place?: string; withSecrets?: boolean };
  env?: Record<string, string>;
  budget?: shapes.Budget;
  /** of the VM and of its programs */
  limits?: shapes.Limits;
  cpus?: number;
  ramMb?: number;
  diskGb?: number;
  arch?: shapes.VmCreate["arch"];
  credentials?: Record<string, string>;
  /** it stays when it stops, and when this object is disposed; default false */
  persistent?: boolean;
  /**
   * longest wait in seconds for room, where the sbx's limits of VMs or of their memory
   * are reached; default 0
   */
  queueSecs?: number;
  signal?: AbortSignal;
}

/** A change of a VM's imported files, of one repository or submodule. */
export interface UnitPatch {
  repository: string;
  dir: string;
  path: string;
  /** for `git apply`; empty: nothing changed */
  patch: Uint8Array;
}

/** A VM. `await using` deletes one that `create` or `fork` made, unless it is persistent. */
export class Sandbox implements AsyncDisposable {
  readonly client: Client;
  /** id of the VM and of its session */
  readonly id: string;
  readonly name: string;
  readonly files: Files;
  readonly ports: Ports;
  #keep: boolean;
  readonly #handlers = new Set<AskHandler>();
  #ownsClient: boolean;

  /** Use `create`, `get` or `list`. */
  private constructor(
    client: Client,
    { id, name }: { id: string; name: string },
    keep: boolean,
    ownsClient = false,
  ) {
    this.client = client;
    this.id = id;
    this.name = name;
    this.#keep = keep;
    this.#ownsClient = ownsClient;
    this.files = new Files(client, this.path);
    this.ports = new Ports(client, this.path);
  }

  /**
   * Makes a VM and waits until programs can be run in it. Where that fails, nothing of it stays.
   *
   * @throws {SbxError} `vm.limit`, `vm.boot_failed`, `request.invalid`, `image.missing`, …
   */
  static async create(options: CreateOptions = {}): Promise<Sandbox> {
    const client = options.client ?? await Client.connect(options.connect);
    const ownsClient = options.client === undefined;
    try {
      const image = options.dockerfile === undefined
        ? options.image
        : await buildImage(client, options.dockerfile);
      const repo = typeof options.repo === "string" ? { dir: options.repo } : options.repo;
      const dir = repo && (client.http.endpoint.home === undefined ? repo.dir : resolve(repo.dir));
      const json: shapes.VmCreate = {
        name: options.name,
        profile_id: options.profile,
        image,
        env: options.env,
        budget: options.budget,
        limits: options.limits,
        cpus: options.cpus,
        ram_mb: options.ramMb,
        disk_gb: options.diskGb,
        arch: options.arch,
        credentials: options.credentials,
        persistent: options.persistent,
        queue_secs: options.queueSecs,
        ...(dir !== undefined && { folders: [{ dir, with_requests: false }] }),
      };
      const key = randomUUID();
      let sandbox: Sandbox;
      for (let tries = 1;; tries++) {
        const vm = await made<shapes.Vm>(client, "/vms/create", json, { key, signal: options.signal });
        sandbox = new Sandbox(client, vm, options.persistent ?? false, ownsClient);
        try {
          await sandbox.ready(options.signal);
          break;
        } catch (error) {
          // A service that restarts removes a VM that never booted: the same request makes it again.
          const isRemoved = error instanceof SbxError && error.code === "vm.not_found";
          if (!isRemoved) await sandbox.delete({ force: true }).catch(() => {});
          if (!isRemoved || tries === CREATE_TRIES) throw error;
        }
      }
      try {
        if (repo) await sandbox.bring(dir!, repo);
      } catch (error) {
        await sandbox.delete({ force: true }).catch(() => {});
        throw error;
      }
      return sandbox;
    } catch (error) {
      if (ownsClient) client.close();
      throw error;
    }
  }

  /** A VM that is there, by name or id; disposing it leaves it. @throws {SbxError} `vm.not_found` */
  static async get(name: string, on: On = {}): Promise<Sandbox> {
    const client = on.client ?? await Client.connect(on.connect);
    const info = await client.http.json<shapes.VmInfo>("GET", `/vms/${segment(name)}/info`);
    return new Sandbox(client, info, true, on.client === undefined);
  }

  /** All VMs, the oldest first. */
  static async list(on: On = {}): Promise<shapes.VmListed[]> {
    const client = on.client ?? await Client.connect(on.connect);
    const vms: shapes.VmListed[] = [];
    let cursor: string | undefined;
    try {
      for (;;) {
        const page = await client.http.json<shapes.VmPage>("GET", "/vms/list", {
          query: { limit: LISTED_AT_ONCE, cursor },
        });
        vms.push(...page.vms);
        cursor = page.next_cursor;
        if (cursor === undefined) return vms;
      }
    } finally {
      if (!on.client) client.close();
    }
  }

  get path(): string {
    return `/vms/${this.id}`;
  }

  info(): Promise<shapes.VmInfo> {
    return this.client.http.json("GET", `${this.path}/info`);
  }

  async status(): Promise<shapes.VmStatus> {
    return (await this.client.http.json<{ status: shapes.VmStatus }>("GET", `${this.path}/status`)).status;
  }

  /** Waits until it runs. @throws {SbxError} `vm.boot_failed` */
  async ready(signal?: AbortSignal): Promise<void> {
    for (let wait = POLL_MS;; wait = Math.min(wait * 1.5, POLL_MAX_MS)) {
      const { status, last_error } = await this.client.http.json<
        { status: shapes.VmStatus; last_error?: string }
      >(
        "GET",
        `${this.path}/status`,
        { signal },
      );
      if (status === "Running") return;
      if (status !== "Booting") {
        throw new SbxError(
          "vm.boot_failed",
          `"${this.name}" did not boot: ${last_error ?? `its status is ${status}`}`,
          { hint: `sbx logs ${this.name} shows why` },
        );
      }
      await sleep(wait, signal);
    }
  }

  /**
   * Runs a program to its end: a list, or a line for `sh`. It ends when its signal aborts, when a callback
   * throws, and when this process goes away.
   */
  async exec(command: string | string[], options: ExecOptions = {}): Promise<ExecResult> {
    const { stdin } = options;
    const input = stdin === undefined
      ? {}
      : typeof stdin === "string"
      ? { stdin }
      : { stdin: Buffer.from(stdin).toString("base64"), stdin_encoding: "base64" };
    const answer = await this.client.http.send("POST", `${this.path}/exec`, {
      json: { ...programBody(command, options), ...input },
      accept: "text/event-stream",
      signal: options.signal,
    });
    const result = await readProgram(answer, options);
    if (options.check && result.exitCode !== 0) throw new ProgramError(result);
    return result;
  }

  /** Starts a program whose input is written while it runs, and whose output is read. */
  async spawn(command: string | string[], options: ProgramOptions = {}): Promise<Program> {
    const socket = await this.client.socket(`/program/${this.id}`);
    await socket.send(JSON.stringify(programBody(command, options)));
    const program = new Program(socket);
    options.signal?.addEventListener("abort", () => program.kill(), { once: true });
    return program;
  }

  /** Opens a terminal: the VM's own, or one of a program. */
  async pty(
    { command, cols, rows }: { command?: string[]; cols?: number; rows?: number } = {},
  ): Promise<Pty> {
    const argv = command && JSON.stringify(command);
    const socket = await this.client.socket(`/terminal/${this.id}`, { argv });
    // Its first message is empty: the terminal is there.
    let isThere = false;
    for await (const _ of socket) {
      isThere = true;
      break;
    }
    // One of a short program may have ended already, with output to read.
    if (!isThere) throw terminalError(socket.end!);
    const pty = new Pty(socket);
    if (cols !== undefined || rows !== undefined) {
      // One that has ended takes no size; who reads it gets its output, and why it ended.
      await pty.resize(cols ?? 80, rows ?? 24).catch(() => {});
    }
    return pty;
  }

  /**
   * Copies it, `count` times from one moment: with its memory, or with the
   * workspace of a snapshot and its disk.
   */
  async fork(
    options: { count?: number; name?: string; at?: string; signal?: AbortSignal } = {},
  ): Promise<Sandbox[]> {
    const { count, name, at, signal } = options;
    const { vms } = await made<shapes.VmForks>(this.client, `${this.path}/fork`, { count, name, at }, {
      signal,
    });
    const copies = vms.map((vm) => new Sandbox(this.client, vm, false));
    try {
      await Promise.all(copies.map((copy) => copy.ready(signal)));
    } catch (error) {
      await Promise.allSettled(copies.map((copy) => copy.delete({ force: true })));
      throw error;
    }
    return copies;
  }

  async suspend(): Promise<void> {
    await this.client.http.json("POST", `${this.path}/suspend`);
  }

  /** Goes on after `suspend` or `pause`. */
  async resume(): Promise<void> {
    await this.client.http.json("POST", `${this.path}/resume`);
  }

  async pause(): Promise<void> {
    await this.client.http.json("POST", `${this.path}/pause`);
  }

  async stop(): Promise<void> {
    await this.client.http.json("POST", `${this.path}/stop`);
  }

  async start(): Promise<void> {
    await this.client.http.json("POST", `${this.path}/start`);
    await this.ready();
  }

  /** Keeps the state of its workspace. */
  snapshot(label?: string): Promise<shapes.Snapshot> {
    return this.client.http.json("POST", `${this.path}/snapshots/create`, { json: { label } });
  }

  /** Puts its workspace back: to a snapshot, to before an event, or to the newest snapshot that differs. */
  undo(options: { to?: string; paths?: string[]; dryRun?: boolean } = {}): Promise<shapes.SnapshotRestored> {
    const { to, paths, dryRun } = options;
    return this.client.http.json("POST", `${this.path}/snapshots/undo`, {
      json: { to, paths, dry_run: dryRun },
    });
  }

  /** Brings a repository or folder of the sbx's machine in. */
  bring(
    dir: string,
    { place, withSecrets, readOnly }: { place?: string; withSecrets?: boolean; readOnly?: boolean } = {},
  ): Promise<shapes.RepositoryBrought> {
    const json = { dir, place, with_secrets: withSecrets, is_read_only: readOnly };
    return this.client.http.json("POST", `${this.path}/repositories`, { json });
  }

  /** The changes to the files that were brought in, as patches. */
  async pull(): Promise<UnitPatch[]> {
    const { units } = await this.client.http.json<shapes.WorkPatch>("GET", `${this.path}/work/patch`);
    return units.map(({ patch, ...unit }) => ({
      ...unit,
      patch: new Uint8Array(Buffer.from(patch, "base64")),
    }));
  }

  /**
   * Events of its record, oldest first, each once: the ones that are there, and with `follow` (the
   * default) the ones to come, until the VM has ended. After an interruption it goes on behind the last
   * one; `after` is the sequence of an event.
   */
  async *events(
    { after = 0, follow = true, signal, ...conditions }: shapes.EventQuery & {
      after?: number;
      follow?: boolean;
      signal?: AbortSignal;
    } = {},
  ): AsyncGenerator<shapes.SbxEvent> {
    for (let cursor = after, isOver = false;;) {
      const query = {
        ...conditions,
        cursor: String(cursor),
        limit: 1000,
        wait_secs: follow && !isOver ? WAIT_SECS : 0,
      };
      const page = await this.client.http.json<{ events: shapes.SbxEvent[]; next_cursor?: string }>(
        "GET",
        `/sessions/${this.id}/events`,
        { query, signal },
      );
      for (const event of page.events) {
        cursor = Math.max(cursor, event.common.sequence);
        yield event;
      }
      if (page.events.length > 0 || page.next_cursor !== undefined) {
        cursor = Math.max(cursor, Number(page.next_cursor ?? 0));
        if (page.next_cursor !== undefined || follow) continue;
      }
      if (!follow || isOver) return;
      // Its last events come before it is over.
      isOver = await this.#isOver();
    }
  }

  async #isOver(): Promise<boolean> {
    try {
      return ["Stopped", "Defunct"].includes(await this.status());
    } catch (error) {
      if (error instanceof SbxError && error.code === "vm.not_found") return true;
      throw error;
    }
  }

  /** Answers its asks until it is deleted or disposed, or the handler is closed. */
  onAsk(callback: AskCallback): AskHandler {
    const handler = new AskHandler(this.client, this.id, callback);
    this.#handlers.add(handler);
    return handler;
  }

  /** Why an event was allowed or refused. */
  why(eventId: string): Promise<shapes.Why> {
    return this.client.http.json("GET", `/sessions/${this.id}/events/${segment(eventId)}/why`);
  }

  /** Calls of models, with tokens and prices, and how far the budgets are used. */
  costs(): Promise<shapes.Costs> {
    return this.client.http.json("GET", `/sessions/${this.id}/costs`);
  }

  /** A signed certificate of its session, as `sbx certify --verify` reads it. Also when it is deleted. */
  certificate(): Promise<shapes.SignedCertificate> {
    return this.client.http.json("GET", `/sessions/${this.id}/certificate`);
  }

  /** Deletes it; its record stays. @param options.force also with work that was not pulled */
  async delete({ force = false }: { force?: boolean } = {}): Promise<void> {
    await this.client.http.json("DELETE", `${this.path}/delete`, { query: force ? { force: true } : {} });
    this.#keep = true;
  }

  /**
   * Deletes a VM that `create` or `fork` made, ends its handlers and its own connection.
   * @throws the error of a callback
   */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = await Promise.allSettled([...this.#handlers].map((handler) => handler.close()));
    try {
      if (!this.#keep) await this.delete({ force: true });
    } catch (error) {
      if (!(error instanceof SbxError) || error.code !== "vm.not_found") throw error;
    } finally {
      if (this.#ownsClient) this.client.close();
    }
    const failed = ended.find((each) => each.status === "rejected");
    if (failed) throw failed.reason;
  }
}

/** Files of a VM: paths below `/workspace`, relative ones too, and other absolute ones while it runs. */
export class Files {
  readonly #client: Client;
  readonly #path: string;

  constructor(client: Client, path: string) {
    this.#client = client;
    this.#path = `${path}/files`;
  }

  async read(path: string): Promise<Uint8Array> {
    return await this.#client.http.whole(
      "GET",
      `${this.#path}/content`,
      { query: { path } },
      (bytes) => bytes,
    );
  }

  async readText(path: string): Promise<string> {
    return new TextDecoder().decode(await this.read(path));
  }

  /** The bytes of a file of any size. */
  stream(path: string): AsyncIterable<Uint8Array> {
    return this.#client.http.pieces("GET", `${this.#path}/content`, { query: { path }, repeats: true });
  }

  /** Writes a file in one step, with its folders. @param mode octal, such as `0755` */
  async write(
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    { mode }: { mode?: string } = {},
  ): Promise<void> {
    const body = typeof content === "string" ? new TextEncoder().encode(content) : content;
    await this.#client.http.json("POST", `${this.#path}/content`, {
      query: { path, mode },
      body,
      repeats: body instanceof Uint8Array,
    });
  }

  async makeFolder(path: string): Promise<void> {
    await this.#client.http.json("POST", `${this.#path}/content`, { query: { path, type: "directory" } });
  }

  /** Entries below a folder. @param depth levels, 1 to 32 */
  async list(path?: string, { depth }: { depth?: number } = {}): Promise<shapes.FileEntry[]> {
    const entries: shapes.FileEntry[] = [];
    let cursor: string | undefined;
    for (;;) {
      const page = await this.#client.http.json<shapes.FileList>("GET", `${this.#path}/list`, {
        query: { path, depth, cursor },
      });
      entries.push(...page.entries);
      cursor = page.next_cursor;
      if (cursor === undefined) return entries;
    }
  }
}

/** Ports of 127.0.0.1 on the sbx's machine that lead into a VM. */
export class Ports {
  readonly #client: Client;
  readonly #path: string;

  constructor(client: Client, path: string) {
    this.#client = client;
    this.#path = `${path}/ports`;
  }

  /** Opens a port of the guest. @param hostPort default: the same, or a free one */
  open(guestPort: number, { hostPort }: { hostPort?: number } = {}): Promise<shapes.Port> {
    return this.#client.http.json("POST", this.#path, {
      json: { guest_port: guestPort, host_port: hostPort },
    });
  }

  async list(): Promise<shapes.Port[]> {
    return (await this.#client.http.json<{ ports: shapes.Port[] }>("GET", this.#path)).ports;
  }

  async close(guestPort: number): Promise<void> {
    await this.#client.http.json("DELETE", `${this.#path}/${guestPort}`);
  }
}

/** Makes VMs by a request that can be repeated. */
function made<T>(
  client: Client,
  path: string,
  json: unknown,
  { key = randomUUID(), signal }: { key?: string; signal?: AbortSignal },
): Promise<T> {
  return client.http.json("POST", path, {
    json,
    headers: { "idempotency-key": key },
    repeats: true,
    signal,
  });
}

/** Builds the image of a Dockerfile by the `sbx` of this machine. @returns its reference */
async function buildImage(client: Client, dockerfile: string): Promise<string> {
  const { home } = client.http.endpoint;
  if (home === undefined) {
    throw new SbxError(
      "request.invalid",
      "a Dockerfile is built on this machine, and the sbx is on another",
      {
        hint: "build it there with sbx image build, and name the image",
      },
    );
  }
  const path = resolve(dockerfile);
  const isFile = !(await isFolder(path));
  const folder = isFile ? resolve(path, "..") : path;
  const tag = `sbx-sdk:${createHash("sha256").update(path).digest("hex").slice(0, 16)}`;
  const args = ["image", "build", folder, "--tag", tag, "--json", ...(isFile ? ["--file", path] : [])];
  await new Promise<void>((done, fail) =>
    execFile(
      "sbx",
      args,
      { env: { ...process.env, SBX_HOME: home }, maxBuffer: PRINTED_MAX },
      (cause, _, stderr) =>
        cause
          ? fail(
            new SbxError(
              "image.build_failed",
              `the image of ${path} was not built: ${stderr.trim().split("\n").at(-1)}`,
              {
                cause,
                hint: `sbx image build ${folder} shows all of it`,
              },
            ),
          )
          : done(),
    )
  );
  return `localhost/${tag}`;
}

async function isFolder(path: string): Promise<boolean> {
  const { stat } = await import("node:fs/promises");
  return (await stat(path).catch((cause) => {
    throw new SbxError("request.invalid", `there is no Dockerfile at ${path}`, { cause });
  })).isDirectory();
}
