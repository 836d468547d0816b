import type { Job, JobList } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { didYouMean } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { table } from "../output.ts";
import { serviceNotes, serviceState } from "./jobs.ts";
import { streamLogs } from "./program.ts";

/** Most lines of `--tail`. */
const TAIL_MAX = 1_000_000;

export const command: CommandGroup = {
  name: "services",
  summary: "list, start, stop and restart the services of VMs",
  notes: [
    "[services] of a VM's profile defines them; sbx services [NAME] lists them: of one VM, or of all.",
  ],
  fallback: "list",
  subcommands: [
    {
      name: "services list",
      usage: "[NAME] [--json]",
      summary: "list the services of a VM, or of all; also: sbx services [NAME]",
      options: [JSON_OPTION],
      words: { min: 0, max: 1 },
      completes: ["vms"],
      examples: ["sbx services list", "sbx services list demo --json"],
      run: list,
    },
    actionCommand("start", "start a service that was stopped, has failed or is done"),
    actionCommand("stop", "end a service until the VM starts again, or it is started"),
    actionCommand("restart", "end a service and start it again"),
    {
      name: "services logs",
      usage: "NAME SERVICE [--tail N] [--follow] [--raw]",
      summary: "print the output of a service, over all of its starts",
      notes: ["On a terminal the output has no control sequences; in a file or pipe it is unchanged."],
      options: [
        { name: "tail", value: "N", about: "only the last N lines" },
        { name: "follow", short: "f", about: "go on until the service is stopped" },
        { name: "raw", about: "byte for byte also on a terminal" },
      ],
      words: { min: 2, max: 2 },
      completes: ["vms", "services"],
      examples: ["sbx services logs demo postgres --tail 20"],
      run: logs,
    },
  ],
};

/** The subcommand that starts, stops or restarts a service. */
function actionCommand(action: "start" | "stop" | "restart", summary: string): Command {
  return {
    name: `services ${action}`,
    usage: "NAME SERVICE [--json]",
    summary,
    options: [JSON_OPTION],
    words: { min: 2, max: 2 },
    completes: ["vms", "services"],
    examples: [`sbx services ${action} demo postgres`],
    run: (args) => act(args, action),
  };
}

async function list(args: Arguments): Promise<number> {
  const [name] = args.words;
  const client = await connect();
  const { jobs } = await client.json<JobList>("GET", name ? `/vms/${segment(name)}/services` : "/jobs");
  const services = jobs.filter(({ service }) => service);
  if (args.has("json")) await printJson({ services });
  else if (services.length === 0) {
    await print("no services: [services] in a profile defines the ones of its VMs");
  } else {
    await print(
      table(["VM", "SERVICE", "STATE", "RESTARTS", "LAST EXIT", "JOB", "ABOUT"], services.map(rowOf)),
    );
  }
  return 0;
}

function rowOf(job: Job): string[] {
  const { id, vm, service } = job;
  const { name, restarts, last_exit_code } = service!;
  // RESTARTS is a column of its own.
  const why = serviceNotes({ ...job, service: { ...service!, restarts: 0 } }).join("; ");
  return [vm, name, serviceState(job), `${restarts}`, last_exit_code?.toString() ?? "", id, why];
}

async function act(args: Arguments, action: "start" | "stop" | "restart"): Promise<number> {
  const [vm, name] = args.words;
  const client = await connect();
  const path = `/vms/${segment(vm)}/services/${segment(name, "service")}/${action}`;
  const job = await client.json<Job>("POST", path);
  if (args.has("json")) await printJson(job);
  else await print(`${name} is ${[serviceState(job), ...serviceNotes(job)].join("; ")}`);
  return 0;
}

async function logs(args: Arguments): Promise<number> {
  const [vm, name] = args.words;
  const tail = args.number("tail", { min: 0, max: TAIL_MAX });
  const client = await connect();
  const job = await findService(client, vm, name);
  await streamLogs(client, job, { tail, follow: args.has("follow"), raw: args.has("raw") });
  return 0;
}

/** @throws {SbxError} `service.not_found` */
async function findService(client: Client, vm: string, name: string): Promise<Job> {
  const { jobs } = await client.json<JobList>("GET", `/vms/${segment(vm)}/services`);
  const job = jobs.find(({ service }) => service?.name === name);
  if (job) return job;
  const names = jobs.flatMap(({ service }) => service ? [service.name] : []);
  throw new SbxError("service.not_found", `the VM "${vm}" has no service ${JSON.stringify(name)}`, {
    hint: didYouMean(name, names) ?? `sbx services list ${vm} lists its services`,
  });
}
