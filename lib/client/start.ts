/** Starts, finds and stops the daemons of one home. */
import { basename, join, resolve } from "node:path";
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import { type Home, home, makeOwnFolder } from "../base/home/mod.ts";
import { type Detached, spawnDetached } from "../base/spawn/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import { Client } from "./client.ts";
import { commandLineOf, environmentOf } from "../base/process/mod.ts";

/** Longest wait for a daemon's first answer, in `ms`. */
const START_TIMEOUT_MS = timeLimit(20_000);
const POLL_MS = 20;
/** Longest wait for the pid file of a daemon that answers, in `ms`. */
const PID_TIMEOUT_MS = timeLimit(2000);
/** Longest wait for a daemon's answer to a probe, in `ms`. */
const PROBE_TIMEOUT_MS = timeLimit(2000);
/** Longest wait for a daemon's end after SIGTERM, in `ms`. */
const STOP_TIMEOUT_MS = timeLimit(15_000);
/** Longest path of a Unix socket, in `bytes`; kernels accept 103 to 107. */
const SOCKET_PATH_MAX = 100;
/** End of a log searched for the reason of a failed start, in `bytes`. */
const LOG_TAIL = 4096;
/** Disk space a daemon needs for its small files, in `bytes`. */
const PROBE_BYTES = 16 * 1024;

export type Daemon = "service" | "gateway";
/** Programs of a home that have a file with their pid. */
type PidOwner = Daemon | "tray";

/** Client of the running gateway, and the daemons started for it. */
export interface StartResult {
  client: Client;
  started: Daemon[];
}

/** Options of a start. */
export interface StartOptions {
  /** TCP port of a newly started gateway; default is the gateway's own choice: 19222, or a free one */
  port?: number;
  /** called before the first daemon is started */
  onStart?: () => void;
}

/**
 * Ensures that service and gateway run. A lock serializes concurrent starts.
 *
 * @throws {SbxError} the error in the daemon's log, or `<daemon>.start_failed`; `disk.full`;
 * `gateway.no_socket`
 */
export async function start(place: Home, { port, onStart }: StartOptions = {}): Promise<StartResult> {
  const running = await probeGateway(place);
  if (running?.hasService) return { client: running.client, started: [] };
  await makeFolder(place.runDir);
  await makeFolder(place.logsDir);
  using lock = await Deno.open(join(place.runDir, "start.lock"), { write: true, create: true, mode: 0o600 });
  await lock.lock(true);
  const started: Daemon[] = [];
  let service: Detached | undefined;
  const begin = (daemon: Daemon) => {
    if (started.length === 0) onStart?.();
    started.push(daemon);
  };
  if (!(await serviceAnswers(place))) {
    checkSocketPath(place.serviceSocket);
    begin("service");
    ({ child: service } = await launch(
      place,
      "service",
      [],
      async () => await serviceAnswers(place) || undefined,
    ));
  }
  let client = await gatewayClient(place);
  if (client === undefined) {
    const unreachable = await findUnreachableGateway(place);
    if (unreachable) {
      throw new SbxError(
        "gateway.no_socket",
        `the gateway (pid ${unreachable.pid}) is running, but its ${unreachable.missing} is missing`,
        { hint: "sbx stop, then try again" },
      );
    }
    begin("gateway");
    const args = port === undefined ? [] : ["--port", String(port)];
    try {
      ({ answer: client } = await launch(
        place,
        "gateway",
        args,
        () => gatewayClient(place),
      ));
    } catch (error) {
      // A service is out of reach without a gateway, and was not requested alone.
      service?.stop();
      await service?.exited;
      throw error;
    }
  }
  return { client, started };
}

/**
 * A daemon answers before it writes its pid, without which nothing can stop it.
 * On a full disk it writes none.
 */
async function awaitPid(place: Home, daemon: Daemon): Promise<void> {
  const deadline = performance.now() + PID_TIMEOUT_MS;
  while (await daemonPid(place, daemon) === undefined && performance.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function makeFolder(path: string): Promise<void> {
  try {
    await makeOwnFolder(path);
  } catch (cause) {
    const reason = cause instanceof Deno.errors.AlreadyExists || cause instanceof Deno.errors.NotADirectory
      ? "part of the path is not a folder"
      : cause instanceof Deno.errors.PermissionDenied || (cause as { code?: string }).code === "EROFS"
      ? "permission denied"
      : undefined;
    if (reason === undefined) throw cause;
    throw new SbxError("home.unusable", `cannot create ${path}: ${reason}`, {
      cause,
      hint: "set SBX_HOME to another folder",
    });
  }
}

function checkSocketPath(path: string): void {
  if (new TextEncoder().encode(path).length <= SOCKET_PATH_MAX) return;
  throw new SbxError(
    "home.too_long",
    `${path} is too long for a Unix socket (limit ${SOCKET_PATH_MAX} bytes)`,
    {
      hint: "set SBX_RUN_DIR to a shorter folder",
    },
  );
}

async function launch<T>(
  place: Home,
  daemon: Daemon,
  args: string[],
  ready: () => Promise<T | undefined>,
): Promise<{ answer: T; child: Detached }> {
  const log = join(place.logsDir, `${daemon}.log`);
  const before = await Deno.stat(log).then(({ size }) => size, () => 0);
  const child = spawnDetached(daemon, args, log);
  let ended = false;
  child.exited.then(() => ended = true);
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const exited = ended;
    const answer = await ready();
    if (answer !== undefined) {
      await awaitPid(place, daemon);
      return { answer, child };
    }
    if (exited) break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  if (!ended) child.kill();
  throw await startError(daemon, log, before, place);
}

/**
 * Error of a failed start, from the daemon's log: `sbx-<daemon>: <what happened> (<code>)?`, and a hint on
 * the next line.
 */
async function startError(daemon: Daemon, log: string, from: number, place: Home): Promise<SbxError> {
  const bytes = await Deno.readFile(log).catch(() => new Uint8Array());
  const lines = new TextDecoder().decode(bytes.subarray(Math.max(from, bytes.length - LOG_TAIL))).trimEnd()
    .split("\n");
  const at = lines.findLastIndex((line) => line.startsWith(`sbx-${daemon}: `));
  const [, message, code] = /^sbx-\w+: (.*?)(?: \(([\w.]+)\))?$/.exec(lines[at] ?? "") ?? [];
  if (message !== undefined) {
    const hint = lines[at + 1]?.trim() || `its log is ${log}`;
    return new SbxError(code ?? `${daemon}.start_failed`, message, { hint });
  }
  // On a full disk the log has no error either.
  const full = await findFullDisk(place.logsDir, place.runDir);
  if (full !== undefined) {
    return new SbxError("disk.full", `sbx-${daemon} did not start: no space left on the disk of ${full}`, {
      hint: "free some space there and try again; running VMs continue, or pause until then",
    });
  }
  const tail = lines.slice(-5).join("\n  ");
  return new SbxError(
    `${daemon}.start_failed`,
    `sbx-${daemon} did not start${tail && `; its log ends with:\n  ${tail}`}`,
    {
      hint: `its log is ${log}`,
    },
  );
}

/** Returns the first of these folders on a full disk. */
async function findFullDisk(...folders: string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, `.room-${crypto.randomUUID()}`);
    try {
      await Deno.writeFile(path, new Uint8Array(PROBE_BYTES), { mode: 0o600 });
    } catch (error) {
      if (asSbxError(error, "testing for disk space").code === "disk.full") return folder;
    } finally {
      await Deno.remove(path).catch(ignore("the probe was not written"));
    }
  }
}

/** Tests whether the service answers on its socket. */
export async function serviceAnswers(place: Home): Promise<boolean> {
  if (!await isOwnSocket(place.serviceSocket)) return false;
  const client = Client.unix(place.serviceSocket);
  try {
    const answer = await client.send("GET", "/version", { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    await answer.body?.cancel();
    return true;
  } catch {
    return false;
  } finally {
    client.http.close();
  }
}

/** Client of the running gateway; `undefined` when none runs. */
export async function gatewayClient(place: Home): Promise<Client | undefined> {
  return (await probeGateway(place))?.client;
}

/**
 * Client of the running gateway, and whether the gateway reaches the service; `undefined` when none runs.
 * By the socket in the run folder, which only this user can have made: after a power cut the TCP port of
 * the file may be another user's.
 */
export async function probeGateway(
  place: Home,
): Promise<{ client: Client; hasService: boolean } | undefined> {
  const [port, isOwn] = await Promise.all([textOf(place.gatewayPortFile), isOwnSocket(place.gatewaySocket)]);
  if (!port || !isOwn) return undefined;
  const client = Client.unix(place.gatewaySocket, `http://127.0.0.1:${port}`);
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const { ok, service } = await client.json<{ ok: boolean; service: boolean }>("GET", "/health", {
      signal,
    });
    if (ok === true) return { client, hasService: service === true };
  } catch { /* none runs */ }
  client.http.close();
}

async function isOwnSocket(path: string): Promise<boolean> {
  const info = await Deno.lstat(path).catch(() => null);
  return info?.isSocket === true && info.uid === Deno.uid();
}

/** Finds a running gateway whose socket or port file was removed, so that no client can connect. */
export async function findUnreachableGateway(
  place: Home,
): Promise<{ pid: number; missing: "socket" | "port file" } | undefined> {
  const pid = await daemonPid(place, "gateway");
  if (pid === undefined) return undefined;
  const missing = !(await isOwnSocket(place.gatewaySocket))
    ? "socket"
    : !(await textOf(place.gatewayPortFile))
    ? "port file"
    : undefined;
  // The pid file is written last and removed first: while it exists, the gateway is not just shutting down.
  return missing && await daemonPid(place, "gateway") === pid ? { pid, missing } : undefined;
}

/** The file with the pid of one of a home's programs. */
export function pidFileOf(place: Home, owner: PidOwner): string {
  return owner === "service"
    ? place.servicePidFile
    : owner === "tray"
    ? place.trayPidFile
    : place.gatewayPidFile;
}

/**
 * Pid of a running daemon or tray, from its pid file. Checks that it is this one of this home, since pids are
 * reused.
 */
export async function daemonPid(place: Home, daemon: PidOwner): Promise<number | undefined> {
  const pid = Number(await textOf(pidFileOf(place, daemon)));
  if (!Number.isInteger(pid) || pid <= 1) return undefined;
  const words = await commandLineOf(pid) ?? [];
  if (!words.some((word) => word === daemon || basename(word) === `sbx-${daemon}`)) return undefined;
  const environment = await environmentOf(pid);
  // A daemon has the absolute path of a home that is relative here.
  return environment === undefined || resolve(home(environment).runDir) === resolve(place.runDir)
    ? pid
    : undefined;
}

/**
 * Stops a daemon with SIGTERM and waits for its end.
 *
 * @returns false when it was not running
 * @throws {SbxError} `<daemon>.stop.timeout`
 */
export async function stopDaemon(place: Home, daemon: Daemon): Promise<boolean> {
  const pid = await daemonPid(place, daemon);
  if (pid === undefined) return false;
  Deno.kill(pid, "SIGTERM");
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  while (await daemonPid(place, daemon) === pid) {
    if (performance.now() > deadline) {
      throw new SbxError(
        `${daemon}.stop.timeout`,
        `sbx-${daemon} (pid ${pid}) did not stop within ${STOP_TIMEOUT_MS / 1000} s`,
        { hint: `read ${place.logsDir}/${daemon}.log; kill -9 ${pid} stops it at once` },
      );
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  return true;
}

async function textOf(path: string): Promise<string> {
  return (await Deno.readTextFile(path).catch(() => "")).trim();
}

/** Reads the port of a newly started gateway from `SBX_GATEWAY_PORT`. @throws {SbxError} `usage.invalid` */
export function portFromEnv(): number | undefined {
  const text = Deno.env.get("SBX_GATEWAY_PORT");
  return text ? parsePort("SBX_GATEWAY_PORT", text) : undefined;
}

/**
 * Parses a port.
 *
 * @param source option or environment variable, for the error
 * @throws {SbxError} `usage.invalid`: not a number from 0 to 65535
 */
export function parsePort(source: string, text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new SbxError("usage.invalid", `invalid value "${text}" of ${source}`, {
    hint: "give a port from 0 to 65535",
  });
}
