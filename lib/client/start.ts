/** Starting service and gateway, by `sbx start` and by every command that finds them missing. */
import { join } from "node:path";
import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { spawnDetached } from "../base/spawn/mod.ts";
import type { Client } from "./client.ts";
import { type Daemon, gatewayClient, serviceAnswers, unreachableGateway } from "./running.ts";

/** Milliseconds that a daemon has to answer after its start. */
const START_TIMEOUT_MS = 20_000;
const POLL_MS = 20;
/** Bytes of the path of a Unix socket: the kernel takes 103 to 107 of them. */
const SOCKET_PATH_MAX = 100;
/** Bytes of a log's end that are looked at for why a start failed. */
const LOG_TAIL = 4096;
/** What a daemon needs at the least for its small files. */
const PROBE_BYTES = 16 * 1024;

/** What runs, and what had to be started for it. */
export interface Started {
  client: Client;
  started: Daemon[];
}

/** How to start. */
export interface StartOptions {
  /** TCP port of the gateway if it must be started; default 19222, which is the gateway's own */
  port?: number;
  /** called before anything is started */
  onStart?: () => void;
}

/**
 * Makes sure that service and gateway run. Whoever comes second waits for the first and finds them running.
 *
 * @throws SbxError what the daemon said of its failure, or `<daemon>.start_failed`
 */
export async function start(place: Home, { port, onStart }: StartOptions = {}): Promise<Started> {
  const running = await gatewayClient(place);
  if (running && await serviceAnswers(place)) return { client: running, started: [] };
  await makeFolder(place.runDir);
  await makeFolder(place.logsDir);
  using lock = await Deno.open(join(place.runDir, "start.lock"), { write: true, create: true, mode: 0o600 });
  await lock.lock(true);
  const started: Daemon[] = [];
  const begin = (daemon: Daemon) => {
    if (started.length === 0) onStart?.();
    started.push(daemon);
  };
  if (!(await serviceAnswers(place))) {
    checkSocketPath(place.serviceSocket);
    begin("service");
    await launch(place, "service", [], async () => await serviceAnswers(place) || undefined);
  }
  let client = await gatewayClient(place);
  if (client === undefined) {
    const lost = await unreachableGateway(place);
    if (lost) {
      throw new SbxError(
        "gateway.no_token",
        `the gateway runs (pid ${lost.pid}), but its ${lost.missing} file is gone`,
        { hint: "sbx stop, then try again" },
      );
    }
    begin("gateway");
    const args = port === undefined ? [] : ["--port", String(port)];
    client = await launch(place, "gateway", args, () => gatewayClient(place));
  }
  return { client, started };
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true, mode: 0o700 });
  } catch (cause) {
    const why = cause instanceof Deno.errors.AlreadyExists || cause instanceof Deno.errors.NotADirectory
      ? "it, or what is above it, is not a folder"
      : cause instanceof Deno.errors.PermissionDenied || (cause as { code?: string }).code === "EROFS"
      ? "you may not write there"
      : undefined;
    if (why === undefined) throw cause;
    throw new SbxError("home.unusable", `cannot make ${path}: ${why}`, {
      cause,
      hint: "SBX_HOME names another folder",
    });
  }
}

function checkSocketPath(path: string): void {
  if (new TextEncoder().encode(path).length <= SOCKET_PATH_MAX) return;
  throw new SbxError("home.too_long", `${path} is too long for a socket`, {
    hint: "SBX_RUN_DIR names a shorter folder",
  });
}

async function launch<T>(
  place: Home,
  daemon: Daemon,
  args: string[],
  ready: () => Promise<T | undefined>,
): Promise<T> {
  const log = join(place.logsDir, `${daemon}.log`);
  const before = await Deno.stat(log).then(({ size }) => size, () => 0);
  const child = spawnDetached(daemon, args, log);
  let ended = false;
  child.exited.then(() => ended = true);
  const deadline = performance.now() + START_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const exited = ended;
    const answer = await ready();
    if (answer !== undefined) return answer;
    if (exited) break;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  if (!ended) child.kill();
  throw await failure(daemon, log, before, place);
}

/** A daemon's last words: `sbx-<daemon>: <what happened> (<code>)?` and a hint on the next line. */
async function failure(daemon: Daemon, log: string, from: number, place: Home): Promise<SbxError> {
  const bytes = await Deno.readFile(log).catch(() => new Uint8Array());
  const lines = new TextDecoder().decode(bytes.subarray(Math.max(from, bytes.length - LOG_TAIL))).trimEnd()
    .split("\n");
  const at = lines.findLastIndex((line) => line.startsWith(`sbx-${daemon}: `));
  const said = /^sbx-\w+: (.*?)(?: \(([\w.]+)\))?$/.exec(lines[at] ?? "");
  if (said) {
    const hint = lines[at + 1]?.trim() || `its log is ${log}`;
    return new SbxError(said[2] ?? `${daemon}.start_failed`, said[1], { hint });
  }
  // On a full disk there was no room for its words either.
  const full = await noSpace(place.logsDir, place.runDir);
  if (full !== undefined) {
    return new SbxError("disk.full", `sbx-${daemon} did not start: no space is left on the disk of ${full}`, {
      hint: "free some space there and try again: VMs that run go on, or stand still until then",
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

/** The first of these folders whose disk takes no more. */
async function noSpace(...folders: string[]): Promise<string | undefined> {
  for (const folder of folders) {
    const path = join(folder, `.room-${crypto.randomUUID()}`);
    try {
      await Deno.writeFile(path, new Uint8Array(PROBE_BYTES), { mode: 0o600 });
    } catch (error) {
      if (asSbxError(error, "looking for room").code === "disk.full") return folder;
    } finally {
      await Deno.remove(path).catch(() => {});
    }
  }
}
