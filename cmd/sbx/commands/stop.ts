import type { VmSummary } from "../../../lib/api/vm.ts";
import { type Daemon, gatewayClient, segment, stopDaemon } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Command, type Given, JSON_OPTION } from "../command.ts";
import { connect } from "../connect.ts";
import { eachVm } from "../each_vm.ts";
import { print, printJson } from "../output.ts";

export const command: Command = {
  name: "stop",
  usage: "[NAME… | --all] [--json]",
  summary:
    "stop VMs; without names the gateway and the service: VMs that run go on, and are found again by the next start",
  options: [
    { name: "all", about: "stop the running VMs, and then the gateway and the service" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completesNames: true,
  examples: ["sbx stop demo", "sbx stop", "sbx stop --all"],
  async run(given) {
    if (given.words.length > 0) return await stopNamed(given);
    const place = home();
    const vms = given.on("all") ? await stopVms() : [];
    const stopped: Daemon[] = [];
    for (const daemon of ["gateway", "service"] as const) {
      if (await stopDaemon(place, daemon)) stopped.push(daemon);
    }
    if (given.on("json")) await printJson({ stopped, vms });
    else if (stopped.length === 0) await print("sbx does not run");
    else await print(`stopped: ${[...vms.map((name) => `VM ${name}`), ...stopped].join(", ")}`);
    return 0;

    async function stopVms(): Promise<string[]> {
      const client = await gatewayClient(place);
      if (client === undefined) return [];
      const { vms } = await client.json<{ vms: VmSummary[] }>("GET", "/vms/list");
      const running = vms.filter(({ available_actions }) => available_actions.includes("stop"));
      await Promise.all(running.map(({ id }) => client.json("POST", `/vms/${segment(id)}/stop`)));
      return running.map(({ name }) => name);
    }
  },
};

async function stopNamed(given: Given): Promise<number> {
  if (given.on("all")) {
    throw new SbxError("request.invalid", "--all stops every VM, and names some", {
      hint: "leave out one of them",
    });
  }
  const json = given.on("json");
  const client = await connect();
  const vms = await eachVm(given.words, "stopping", json, async (name) => {
    await client.json("POST", `/vms/${segment(name)}/stop`);
    if (!json) await print(`stopped ${name}`);
  });
  if (json) await printJson({ stopped: [], vms });
  return vms.length === given.words.length ? 0 : 1;
}
