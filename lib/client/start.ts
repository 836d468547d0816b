/** Starting service and gateway, by `sbx start` and by every command that finds them missing. */
import { join } from "node:path";
import { SbxError } from "../error/mod.ts";
import type { Home } from "../home/mod.ts";
import { spawnDetached } from "../program/mod.ts";
import type { Client } from "./client.ts";
import { type Daemon, gatewayClient, serviceAnswers } from "./running.ts";

/** Milliseconds that a daemon has to answer after its start. */
const START_TIMEOUT_MS = 20_000;
const POLL_MS = 20;
/** Bytes of a log's end that are looked at for why a start failed. */
const LOG_TAIL = 4096;

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
  await Deno.mkdir(place.runDir, { recursive: true, mode: 0o700 });
  await Deno.mkdir(place.logsDir, { recursive: true, mode: 0o700 });
  using lock = await Deno.open(join(place.runDir, "start.lock"), { write: true, create: true, mode: 0o600 });
  await lock.lock(true);
  const started: Daemon[] = [];
  const begin = (daemon: Daemon) => {
    if (started.length === 0) onStart?.();
    started.push(daemon);
  };
  if (!(await serviceAnswers(place))) {
    begin("service");
    await launch(place, "service", [], async () => await serviceAnswers(place) || undefined);
  }
  let client = await gatewayClient(place);
  if (client === undefined) {
    begin("gateway");
    const args = port === undefined ? [] : ["--port", String(port)];
    client = await launch(place, "gateway", args, () => gatewayClient(place));
  }
  return { client, started };
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
  throw await failure(daemon, log, before);
}

/** A daemon's last words: `sbx-<daemon>: <what happened> (<code>)?` and a hint on the next line. */
async function failure(daemon: Daemon, log: string, from: number): Promise<SbxError> {
  const bytes = await Deno.readFile(log).catch(() => new Uint8Array());
  const lines = new TextDecoder().decode(bytes.subarray(Math.max(from, bytes.length - LOG_TAIL))).trimEnd()
    .split("\n");
  const at = lines.findLastIndex((line) => line.startsWith(`sbx-${daemon}: `));
  const said = /^sbx-\w+: (.*?)(?: \(([\w.]+)\))?$/.exec(lines[at] ?? "");
  if (said) {
    const hint = lines[at + 1]?.trim() || `its log is ${log}`;
    return new SbxError(said[2] ?? `${daemon}.start_failed`, said[1], { hint });
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
