import type { Job, JobList } from "../../../lib/client/api/mod.ts";
import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { attach, type Banner, DETACH_NOTE } from "./attach.ts";
import { connect } from "../connect.ts";
import { table, UTC_NOTE } from "../output.ts";
import { findJob, jobPath, SBX_FAILED, streamLogs } from "./program.ts";

const TAIL_MAX = 1_000_000;
/** The service's close reason for a terminal whose program has ended. */
const TERMINAL_ENDED = "the terminal ended";
/** Longest wait for the end of a job after its terminal's, and between checks, in `ms`. */
const END_MS = timeLimit(3000);
const POLL_MS = 100;
/** Most characters of a command in the list. */
const COMMAND_MAX = 60;
const CODE_NOTE = `The exit code is the job's once it has ended; 0 before, ${SBX_FAILED} if sbx failed.`;

export const command: CommandGroup = {
  name: "jobs",
  summary: "list, watch and end services and detached programs",
  notes: ["sbx jobs [NAME] lists them: of one VM, or of all."],
  fallback: "list",
  subcommands: [
    {
      name: "jobs list",
      usage: "[NAME] [--json]",
      summary: "list the jobs of a VM, or of all; also: sbx jobs [NAME]",
      notes: [UTC_NOTE],
      options: [JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["vms"],
      examples: ["sbx jobs list", "sbx jobs list demo --json"],
      run: list,
    },
    {
      name: "jobs attach",
      usage: "ID",
      summary: "connect to a running job: its terminal, or its output as it comes",
      notes: [
        `On a terminal, ${DETACH_NOTE}. Without one, ctrl-c ends the view and not the job.`,
        "Two may attach at once; the terminal that attached or changed last sets the size.",
        CODE_NOTE,
      ],
      options: [],
      words: { min: 1, max: 1 },
      completes: ["running jobs"],
      failure: SBX_FAILED,
      examples: ["sbx jobs attach 3f2a90c1"],
      run: attachTo,
    },
    {
      name: "jobs logs",
      usage: "ID [--tail N] [--follow] [--raw] [--json]",
      summary: "print the output of a job, also of one that has ended",
      notes: [
        "On a terminal the output has no control sequences; in a file or pipe it is unchanged.",
        CODE_NOTE,
      ],
      options: [
        { name: "tail", value: "N", about: "only the last N lines" },
        { name: "follow", short: "f", about: "go on until the job ends" },
        { name: "raw", about: "byte for byte also on a terminal" },
        JSON_OPTION,
      ],
      words: { min: 1, max: 1 },
      completes: ["jobs"],
      failure: SBX_FAILED,
      examples: ["sbx jobs logs 3f2a90c1 --tail 20", "sbx jobs logs --follow 3f2a90c1"],
      run: logs,
    },
    {
      name: "jobs stop",
      usage: "ID… [--json]",
      summary: "end jobs: SIGTERM, and SIGKILL after two seconds",
      options: [JSON_OPTION],
      words: { min: 1, max: Infinity },
      completes: ["running jobs"],
      examples: ["sbx jobs stop 3f2a90c1"],
      run: stop,
    },
  ],
};

async function list(args: Arguments): Promise<number> {
  const [name] = args.words;
  const client = await connect();
  const { jobs } = await client.json<JobList>("GET", name ? `/vms/${segment(name)}/jobs` : "/jobs");
  if (args.has("json")) await printJson({ jobs });
  else if (jobs.length === 0) await print("no jobs: sbx exec --detach NAME -- CMD… starts one");
  else await print(table(["JOB", "VM", "STATE", "EXIT", "DURATION", "STARTED", "COMMAND"], jobs.map(rowOf)));
  return 0;
}

function rowOf(job: Job): string[] {
  const { id, vm, state, exit_code, started_at, argv, reason, service } = job;
  const line = argv.join(" ");
  const command = line.length > COMMAND_MAX ? `${line.slice(0, COMMAND_MAX).toWellFormed()}…` : line;
  const exit = state === "Ended" ? exit_code?.toString() ?? "?" : service?.last_exit_code?.toString() ?? "";
  const started = started_at.slice(0, 19).replace("T", " ");
  const notes = service ? serviceNotes(job) : reason ? [reason] : [];
  const what = service ? `${service.name}: ${command}` : command;
  const about = notes.length > 0 ? `${what} (${notes.join("; ")})` : what;
  return [id, vm, serviceState(job), exit, durationOf(job), started, about];
}

/** State of a job; of a service its own, unless its VM stands still. */
export function serviceState({ state, service }: Job): string {
  return service && state !== "Paused" && state !== "Suspended" ? service.state : state;
}

/** Facts about a service beside its state. */
export function serviceNotes({ service, reason }: Job): string[] {
  const { restarts = 0 } = service ?? {};
  const why = service?.reason ?? reason;
  return [...restarts > 0 ? [`${count(restarts, "restart")}`] : [], ...why ? [why] : []];
}

/** `1:02:03`, or `4.2 s`; for a running job, the time so far. */
function durationOf({ state, started_at, duration_ms }: Job): string {
  if (state === "Ended" && duration_ms === undefined) return "?";
  const ms = duration_ms ?? Date.now() - Date.parse(started_at);
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const [hours, minutes, seconds] = [ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60].map(Math.floor);
  const pad = (n: number) => n.toString().padStart(2, "0");
  return hours > 0 ? `${hours}:${pad(minutes)}:${pad(seconds)}` : `${minutes}:${pad(seconds)}`;
}

async function attachTo(args: Arguments): Promise<number> {
  const client = await connect();
  const job = await findJob(client, args.words[0]);
  if (job.state === "Ended") {
    throw new SbxError("job.ended", `job ${job.id} has ended`, {
      hint: `sbx jobs logs ${job.id} shows its output`,
    });
  }
  return await attachJob(client, job);
}

/**
 * Connects to a running job until it ends or is detached from.
 * @param banner drawn over its terminal.
 * @returns its exit code; 0 while it runs
 */
export async function attachJob(client: Client, job: Job, banner?: Banner): Promise<number> {
  if (!job.tty) return exitOf(await streamLogs(client, job, { follow: true, raw: false }));
  const socket = client.socket(`/terminal/${segment(job.vm)}`, { job: job.id });
  const { code, reason } = await attach(socket, `the terminal of job ${job.id}`, false, { banner });
  if (code === 1000) return reason === TERMINAL_ENDED ? await exitAfter(client, job) : 0;
  throw new SbxError("process.gone", reason || `the connection to job ${job.id} was lost`, {
    hint: `the job goes on: sbx jobs attach ${job.id}`,
  });
}

/** Exit code of a job whose terminal has ended: its program ends shortly after. */
async function exitAfter(client: Client, { vm, id }: Job): Promise<number> {
  for (let waited = 0;; waited += POLL_MS) {
    const job = await client.json<Job>("GET", jobPath({ vm, id }));
    if (job.state === "Ended") note(`sbx: job ${id} has ended`);
    if (job.state === "Ended" || waited >= END_MS) return exitOf(job);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

async function logs(args: Arguments): Promise<number> {
  const tail = args.number("tail", { min: 0, max: TAIL_MAX });
  const client = await connect();
  const job = await findJob(client, args.words[0]);
  if (args.has("json")) {
    const query = tail === undefined ? "" : `?tail=${tail}`;
    return await printJson(await client.json("GET", `${jobPath(job)}/logs${query}`)), 0;
  }
  return exitOf(await streamLogs(client, job, { tail, follow: args.has("follow"), raw: args.has("raw") }));
}

async function stop(args: Arguments): Promise<number> {
  const client = await connect();
  const stopped: Job[] = [];
  for (const id of args.words) {
    const job = await findJob(client, id);
    stopped.push(await client.json<Job>("POST", `${jobPath(job)}/stop`));
  }
  if (args.has("json")) await printJson({ jobs: stopped });
  else {
    for (const { id, state } of stopped) {
      await print(state === "Ended" ? `stopped ${id}` : `${id} is still ${state}`);
    }
  }
  return stopped.every(({ state }) => state === "Ended") ? 0 : 1;
}

function exitOf({ state, exit_code }: Job): number {
  return state === "Ended" ? exit_code ?? SBX_FAILED : 0;
}
