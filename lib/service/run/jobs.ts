/** Jobs of VMs: a running VM's are requested from its process, others read from disk. */
import type { Job, JobLogs, JobRequest } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import {
  endedWithVm,
  jobDir,
  jobEnded,
  type JobRecord,
  lastLines,
  noTerminal,
  OutputReader,
  type Piece,
  readJobs,
} from "../../session/job/mod.ts";
import type { Send, Trace } from "./exec.ts";
import { isAlive, type Vm } from "../vm/vm.ts";

/** Most `bytes` of each stream in a reply that is not a stream. */
const REPLY_BYTES = 10 * 1024 * 1024;

/** Part of a job's output. */
export interface LogRange {
  /** lines from the end */
  tail?: number;
  /** position in the output */
  from?: number;
}

export async function listJobs(vm: Vm): Promise<Job[]> {
  return (await recordsOf(vm)).map((record) => jobOf(vm, record));
}

/** @throws {SbxError} `job.not_found` */
export async function findJob(vm: Vm, id: string): Promise<Job> {
  const record = (await recordsOf(vm)).find((record) => record.id === id);
  if (record) return jobOf(vm, record);
  throw new SbxError("job.not_found", `the VM "${vm.record.name}" has no job ${id}`, {
    hint: "sbx jobs lists the jobs of all VMs",
  });
}

/** Starts a job. The VM is ready. @throws {SbxError} `vm.busy`, `vm.wrong_state` */
export async function startJob(
  vm: Vm,
  { command, cwd, user, env, timeout_secs, tty, trace_id }: JobRequest & Trace,
): Promise<Job> {
  const { job } = await vm.process.call({
    t: "JobStart",
    argv: typeof command === "string" ? ["/bin/sh", "-c", command] : command,
    cwd,
    user,
    env,
    timeout_ms: timeout_secs === undefined ? undefined : timeout_secs * 1000,
    tty: tty ?? false,
    ...(trace_id !== undefined && { trace_id }),
  });
  return jobOf(vm, job);
}

/** @throws {SbxError} `job.not_found`, `job.ended`, `vm.wrong_state` */
export async function stopJob(vm: Vm, id: string): Promise<Job> {
  const { state } = await findJob(vm, id);
  if (state === "Paused" || state === "Suspended") {
    throw new SbxError(
      "vm.wrong_state",
      `job ${id} cannot be stopped: its VM "${vm.record.name}" is ${state}`,
      {
        hint: `sbx resume ${vm.record.name} resumes it`,
      },
    );
  }
  if (state === "Ended") throw jobEnded(id);
  const { job } = await vm.process.call({ t: "JobStop", job: id });
  return jobOf(vm, job);
}

/** The services among a VM's jobs. */
export async function listServices(vm: Vm): Promise<Job[]> {
  return (await listJobs(vm)).filter(({ service }) => service !== undefined);
}

/** Starts, stops or restarts a service. The VM is ready. @throws {SbxError} `service.not_found` */
export async function orderService(vm: Vm, name: string, action: "start" | "stop" | "restart"): Promise<Job> {
  const { job } = await vm.process.call({ t: "ServiceAct", name, action });
  return jobOf(vm, job);
}

/** Checks that a job has a terminal to attach to. @throws {SbxError} `job.ended`, `job.no_terminal` */
export function requireTerminal({ id, tty, state }: Job): void {
  if (state === "Ended") throw jobEnded(id);
  if (!tty) throw noTerminal(id);
}

/** The output that is kept of a job. @throws {SbxError} `job.not_found` */
export async function readJobLogs(vm: Vm, id: string, range: LogRange): Promise<JobLogs> {
  const job = await findJob(vm, id);
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const { pieces, next } = readPieces(vm, id, range);
  const logs = { stdout: "", stderr: "", missing_bytes: 0, next, job };
  for (const { stream, bytes, missing } of lastBytes(pieces)) {
    logs[stream] += decoders[stream].decode(bytes, { stream: true });
    logs.missing_bytes += missing;
  }
  return logs;
}

/**
 * Sends a job's output as events `stdout`, `stderr` and `missing`; the last event is `job`.
 *
 * @param follow until the job ends
 * @throws {SbxError} `job.not_found`
 */
export async function streamJobLogs(
  vm: Vm,
  id: string,
  { follow, ...range }: LogRange & { follow: boolean },
  send: Send,
  gone: AbortSignal,
): Promise<void> {
  const job = await findJob(vm, id);
  const { pieces, next } = readPieces(vm, id, range);
  for (const piece of pieces) await sendPiece(piece, send);
  const isLive = job.state !== "Ended" && isAlive(vm.state);
  if (follow && isLive) await followLive(vm, id, next, send, gone);
  else await send("job", job);
}

async function followLive(vm: Vm, id: string, from: number, send: Send, gone: AbortSignal): Promise<void> {
  using call = await vm.process.open({ t: "JobFollow", job: id, from });
  gone.addEventListener("abort", () => call.close());
  for (let reply = await call.next(); reply !== null; reply = await call.next()) {
    if (reply.t === "Output") await send(reply.stream, { data: reply.data });
    else if (reply.t === "Missing") await send("missing", { bytes: reply.bytes });
    else return await send("job", jobOf(vm, reply.job));
  }
  throw new SbxError("process.gone", `the VM "${vm.record.name}" ended while the job ran`, {
    hint: `sbx jobs logs ${id} shows its output`,
  });
}

async function sendPiece({ stream, bytes, missing }: Piece, send: Send): Promise<void> {
  if (missing > 0) await send("missing", { bytes: missing });
  await send(stream, { data: bytes.toBase64() });
}

async function recordsOf(vm: Vm): Promise<JobRecord[]> {
  const asked = isAlive(vm.state) && vm.state.state !== "Booting"
    ? await vm.process.call({ t: "Jobs" }).then(({ jobs }) => jobs, () => undefined)
    : undefined;
  if (asked) return asked;
  const records = await readJobs(vm.paths.jobs);
  return vm.state.state === "Suspended" ? records : records.map(endedWithVm);
}

function jobOf(vm: Vm, record: JobRecord): Job {
  const { state } = vm.state;
  const stands = record.state !== "Ended" && (state === "Paused" || state === "Suspended");
  return { ...record, vm: vm.record.name, state: stands ? state : record.state };
}

function readPieces(vm: Vm, id: string, { tail, from }: LogRange): { pieces: Piece[]; next: number } {
  using reader = new OutputReader(jobDir(vm.paths.jobs, id), from);
  const pieces: Piece[] = [];
  for (let piece = reader.read(); piece; piece = reader.read()) pieces.push(piece);
  return { pieces: tail === undefined ? pieces : lastLines(pieces, tail), next: reader.position };
}

/** The last pieces that fit a reply. */
function lastBytes(pieces: Piece[]): Piece[] {
  let bytes = 0;
  const first = pieces.findLastIndex((piece) => (bytes += piece.bytes.length) > REPLY_BYTES);
  return pieces.slice(first + 1);
}
