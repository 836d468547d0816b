/** Functions on jobs, shared by commands. */
import type { Job, JobList, JobRequest } from "../../../lib/client/api/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { writeAll } from "../../../lib/base/wire/mod.ts";
import { type Client, segment, serverEvents } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { serverError } from "./program.ts";

/** Path of a job's routes. */
export function jobPath({ vm, id }: Pick<Job, "vm" | "id">): string {
  return `/vms/${segment(vm)}/jobs/${segment(id, "job")}`;
}

/** Finds a job in all VMs. @throws {SbxError} `job.not_found` */
export async function findJob(client: Client, id: string): Promise<Job> {
  const { jobs } = await client.json<JobList>("GET", "/jobs");
  const job = jobs.find((job) => job.id === id);
  if (job) return job;
  throw new SbxError("job.not_found", `no VM has a job "${id}"`, {
    hint: "sbx jobs lists the jobs of all VMs",
  });
}

/** Number of the jobs that end with their VM; 0 for an unknown VM. */
export async function countRunningJobs(client: Client, vm: string): Promise<number> {
  const path = `/vms/${segment(vm)}/jobs`;
  const { jobs } = await client.json<JobList>("GET", path).catch(() => ({ jobs: [] }));
  return jobs.filter(({ state }) => state !== "Ended").length;
}

/** Starts a job and prints its id. @returns 0, or the exit code of a program that policy blocked */
export async function startDetached(vm: string, json: JobRequest, asJson: boolean): Promise<number> {
  const client = await connect();
  const job = await client.json<Job>("POST", `/vms/${segment(vm)}/jobs`, { json });
  if (asJson) await printJson(job);
  else if (job.state !== "Ended" || job.exit_code === 0) await print(job.id);
  if (job.state === "Ended" && job.exit_code !== 0) {
    if (!asJson) await streamLogs(client, job, { raw: false });
    return job.exit_code ?? 1;
  }
  if (job.state === "Waiting") note(`sbx: a person has to allow it first: sbx asks`);
  else if (!asJson && Deno.stdout.isTerminal()) note(`sbx jobs logs ${job.id} shows its output`);
  return 0;
}

/**
 * Copies a job's output to stdout and stderr, on a terminal without control sequences.
 *
 * @param options.raw copies byte for byte, even on a terminal
 * @returns the job, in its state afterwards
 */
export async function streamLogs(
  client: Client,
  job: Job,
  { tail, follow, raw }: { tail?: number; follow?: boolean; raw: boolean },
): Promise<Job> {
  const query = new URLSearchParams({
    ...tail !== undefined && { tail: `${tail}` },
    ...follow && { follow: "true" },
  });
  const response = await client.send("GET", `${jobPath(job)}/logs?${query}`, { accept: "text/event-stream" });
  const writers = { stdout: writerOf(Deno.stdout, raw), stderr: writerOf(Deno.stderr, raw) };
  for await (const { event, data } of serverEvents(response.body!)) {
    const value = JSON.parse(data);
    if (event === "stdout" || event === "stderr") await writers[event](Uint8Array.fromBase64(value.data));
    else if (event === "missing") note(`sbx: ${value.bytes} bytes of output were not kept`);
    else if (event === "error") throw serverError(value);
    else if (event === "job") return value;
  }
  throw new SbxError("process.gone", "the connection was lost before the end of the output", {
    hint: `sbx jobs logs ${job.id} shows it again`,
  });
}

function writerOf(out: typeof Deno.stdout, raw: boolean): (bytes: Uint8Array) => Promise<void> {
  if (raw || !out.isTerminal()) return (bytes) => writeAll(out, bytes);
  const text = new LogText();
  return (bytes) => writeAll(out, new TextEncoder().encode(text.push(bytes)));
}

/** Control sequences and strings of ECMA-48, and other escapes. */
const ESCAPES =
  // deno-lint-ignore no-control-regex
  /\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-OQ-WYZ\\`-~])/g;
/** Longest escape that is cut by the end of a piece, in characters. */
const ESCAPE_MAX = 4096;

/** A job's output for a person's terminal: its text, without anything that moves the cursor or changes the terminal. */
export class LogText {
  readonly #decoder = new TextDecoder();
  #rest = "";

  push(bytes: Uint8Array): string {
    const text = (this.#rest + this.#decoder.decode(bytes, { stream: true })).replace(ESCAPES, "");
    // The rest of an escape, or the line feed after a carriage return, arrives with the next piece.
    const escape = text.indexOf("\x1b");
    const isCut = escape >= 0 && text.length - escape <= ESCAPE_MAX;
    const end = isCut ? escape : text.endsWith("\r") ? text.length - 1 : text.length;
    this.#rest = text.slice(end);
    return plain(text.slice(0, end).replaceAll("\r\n", "\n").replaceAll("\r", "\n"), true);
  }
}
