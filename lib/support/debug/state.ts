/** State of VMs and readiness, without a service: from the home alone. */
import type { Home } from "../../base/home/mod.ts";
import { hostReport } from "../doctor/host/mod.ts";
import { readRecord, readState, sessionPaths } from "../../session/files/mod.ts";
import { within } from "./probe.ts";

/** A running service's knowledge of its VMs. */
export interface LiveState {
  running: number;
  total: number;
  issues: string[];
  defunct: { name: string; last_error: string }[];
}

/** Issue of a report that was made without a service. */
const NO_SERVICE = "the service does not answer: this report was made from the files of the home";
/** Most sessions that are looked at. */
const SESSIONS_MAX = 1000;

/** Reads a service's report from disk. VMs run on without it: a process with a socket counts as running. */
export async function stateFromDisk(home: Home): Promise<LiveState> {
  const [{ checks }, vms] = await Promise.all([hostReport(home), readVms(home)]);
  const problems = checks.filter(({ state }) => state === "failed")
    .map(({ title, detail, remedy }) => `${title}: ${detail}${remedy ? ` (${remedy})` : ""}`);
  return {
    running: vms.filter(({ running }) => running).length,
    total: vms.length,
    issues: [NO_SERVICE, ...problems],
    defunct: vms.flatMap(({ name, error }) => error === undefined ? [] : [{ name, last_error: error }]),
  };
}

async function readVms(home: Home): Promise<{ name: string; running: boolean; error?: string }[]> {
  const entries = Array.fromAsync(Deno.readDir(home.sessionsDir), ({ name }) => name);
  const ids = await within(entries, []);
  return await Promise.all(
    ids.sort().slice(0, SESSIONS_MAX).map((id) => within(readVm(home, id), { name: id, running: false })),
  );
}

async function readVm(home: Home, id: string): Promise<{ name: string; running: boolean; error?: string }> {
  const paths = sessionPaths(home, id);
  const running = await answers(paths.socket);
  try {
    const { name } = await readRecord(paths);
    const error = (await readState(paths))?.last_error;
    return { name, running, ...(error !== undefined && { error }) };
  } catch (error) {
    return {
      name: `damaged-${id.slice(0, 8)}`,
      running,
      error: error instanceof Error ? error.message : String(error),
    };
  }
}

async function answers(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch {
    return false;
  }
}
