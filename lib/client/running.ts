/** Finds and stops the running daemons of one home. */
import { basename, resolve } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Home, home } from "../base/home/mod.ts";
import { commandLineOf, environmentOf } from "../base/process/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import { Client } from "./client.ts";

/** Longest wait for a daemon's answer to a probe, in `ms`. */
const PROBE_TIMEOUT_MS = timeLimit(2000);
/** Longest wait for a daemon's end after SIGTERM, in `ms`. */
const STOP_TIMEOUT_MS = timeLimit(15_000);

export type Daemon = "service" | "gateway";
/** Programs of a home that have a file with their pid. */
type PidOwner = Daemon | "tray";

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
 * Client of the running gateway, and whether the gateway reaches the service; `undefined` when none runs. By the socket in
 * the run folder, which only this user can have made: after a power cut the TCP port of the file may be another user's.
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
