import type { VmSummary } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home } from "../../../lib/base/home/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Daemon, probeGateway, segment, stopDaemon } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { eachVm } from "./each_vm.ts";
import { countRunningJobs } from "./program.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";

export const command: Command = {
  name: "stop",
  usage: "[NAME… | --all] [--json]",
  summary: "stop VMs; without names, the gateway and the service",
  notes: ["VMs keep running without the service; --all stops them too."],
  options: [
    { name: "all", short: "a", about: "stop the running VMs, then the gateway and the service" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completes: ["vms"],
  examples: ["sbx stop demo", "sbx stop", "sbx stop --all"],
  async run(args) {
    if (args.words.length > 0) return await stopNamed(args);
    const place = home();
    const vms = args.has("all") ? await stopVms() : [];
    const stopped: Daemon[] = [];
    for (const daemon of ["gateway", "service"] as const) {
      if (await stopDaemon(place, daemon)) stopped.push(daemon);
    }
    const left = await runningVms(place);
    if (args.has("json")) await printJson({ stopped, vms, running: left });
    else if (stopped.length === 0) await print("sbx is not running");
    else await print(`stopped: ${[...vms.map((name) => `VM ${name}`), ...stopped].join(", ")}`);
    if (left.length > 0 && !args.has("json")) {
      note(
        `sbx: ${count(left.length, "VM runs", "VMs run")} on (${left.join(", ")}): sbx stop --all stops them`,
      );
    }
    return 0;

    async function stopVms(): Promise<string[]> {
      const probe = await probeGateway(place);
      // VMs outlive the service that started them: the next one finds them.
      const isNeeded = probe?.hasService !== true && (await runningVms(place)).length > 0;
      const client = isNeeded ? await connect() : probe?.client;
      if (client === undefined) return [];
      const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
      const running = vms.filter(({ available_actions }) => available_actions.includes("stop"));
      const jobs = await Promise.all(running.map(({ id }) => countRunningJobs(client, id)));
      await Promise.all(running.map(({ id }) => client.json("POST", `/vms/${segment(id)}/stop`)));
      const ended = jobs.reduce((sum, each) => sum + each, 0);
      if (ended > 0) note(`sbx: ${count(ended, "job")} ended with the VMs: sbx jobs`);
      return running.map(({ name }) => name);
    }
  },
};

/** Names of VMs whose process answers, found by its socket, whether or not a service runs. */
async function runningVms(place: Home): Promise<string[]> {
  const names: string[] = [];
  const entries = await Array.fromAsync(Deno.readDir(place.sessionsDir)).catch(() => []);
  if (entries.length === 0) return [];
  const { readRecord, sessionPaths } = await import("../../../lib/session/mod.ts");
  for (const { name: id } of entries) {
    const paths = sessionPaths(place, id);
    try {
      (await Deno.connect({ transport: "unix", path: paths.socket })).close();
    } catch {
      continue;
    }
    const record = await readRecord(paths).catch(() => undefined);
    if (!record?.parent) names.push(record?.name ?? id);
  }
  return names.sort();
}

async function stopNamed(args: Arguments): Promise<number> {
  if (args.has("all")) {
    throw new SbxError("usage.invalid", "--all cannot be combined with names of VMs", {
      hint: "give --all to stop every VM, or names to stop some",
    });
  }
  const json = args.has("json");
  const client = await connect();
  const vms = await eachVm(args.words, "stopping", json, async (name) => {
    const jobs = await countRunningJobs(client, name);
    await client.json("POST", `/vms/${segment(name)}/stop`);
    if (!json) await print(`stopped ${name}`);
    if (jobs > 0) note(`sbx: ${count(jobs, "job")} ended with it: sbx jobs ${name}`);
  });
  if (json) await printJson({ stopped: [], vms });
  return vms.length === args.words.length ? 0 : 1;
}
