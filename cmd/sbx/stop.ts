import type { VmSummary } from "../../lib/api/vm.ts";
import { type Daemon, gatewayClient, segment, stopDaemon } from "../../lib/client/mod.ts";
import { home } from "../../lib/home/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { print, printJson } from "./output.ts";

export const command: Command = {
  name: "stop",
  usage: "[--all] [--json]",
  summary: "stop the gateway and the service; running VMs go on, and are found again by the next start",
  options: [{ name: "all", about: "stop the running VMs first" }, JSON_OPTION],
  examples: ["sbx stop", "sbx stop --all"],
  async run(given) {
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
