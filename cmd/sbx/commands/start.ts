import type { VmSummary } from "../../../lib/api/vm.ts";
import { daemonPid, gatewayClient, segment, start } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { untilRunning } from "../boot.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { portFromEnv, portOf } from "../connect.ts";
import { eachVm } from "../each_vm.ts";
import { print, printJson } from "../output.ts";

export const command: Command = {
  name: "start",
  usage: "[NAME…] [--port N] [--json]",
  summary: "start the service and the gateway, if they do not run, and VMs that were stopped",
  options: [
    {
      name: "port",
      value: "N",
      about: "TCP port of the gateway on 127.0.0.1 (SBX_GATEWAY_PORT, else 19222; 0: any)",
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completesNames: true,
  examples: ["sbx start", "sbx start demo", "sbx start --port 0"],
  async run(given) {
    const place = home();
    const asked = given.text("port");
    const wanted = asked === undefined ? undefined : portOf("--port", asked);
    const running = wanted ? await gatewayClient(place) : undefined;
    if (running && new URL(running.base).port !== String(wanted)) {
      throw new SbxError("gateway.already_running", `the gateway runs already, at ${running.base}`, {
        hint: "sbx stop first, and then start it on another port",
      });
    }
    const { client, started } = await start(place, { port: wanted ?? portFromEnv() });
    const [service, gateway] = await Promise.all([daemonPid(place, "service"), daemonPid(place, "gateway")]);
    const json = given.on("json");
    const { words } = given;
    if (!json && words.length === 0) {
      await print(`sbx ${started.length === 0 ? "runs already" : "runs"}: ${client.base}`);
    }
    const vms = await eachVm(words, "starting", json, async (name) => {
      await untilRunning(client, await client.json<VmSummary>("POST", `/vms/${segment(name)}/start`));
      if (!json) await print(`${name} runs`);
    });
    if (json) await printJson({ gateway: client.base, started, pids: { service, gateway }, vms });
    return vms.length === words.length ? 0 : 1;
  },
};
