import type { VmInfo, VmSummary } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { daemonPid, gatewayClient, parsePort, portFromEnv, segment, start } from "../../../lib/client/mod.ts";
import { waitUntilRunning } from "./new_vm.ts";
import { showConflicts } from "./image_conflicts.ts";
import { ALL_OPTION, allVms, eachVm } from "./each_vm.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";

export const command: Command = {
  name: "start",
  usage: "[NAME… | --all] [--port N] [--json]",
  summary: "start the service and the gateway, or stopped VMs",
  options: [
    {
      name: "port",
      value: "N",
      about:
        "TCP port of the gateway on 127.0.0.1; default SBX_GATEWAY_PORT, or 19222 where it is free; 0 for any free port",
    },
    { ...ALL_OPTION, about: "start every stopped VM" },
    JSON_OPTION,
  ],
  words: { min: 0, max: Infinity },
  completes: ["vms"],
  examples: ["sbx start", "sbx start demo", "sbx start --all", "sbx start --port 0"],
  async run(args) {
    const place = home();
    const text = args.text("port");
    const port = text === undefined ? undefined : parsePort("--port", text);
    const running = port ? await gatewayClient(place) : undefined;
    if (running && new URL(running.base).port !== String(port)) {
      throw new SbxError("gateway.already_running", `the gateway is already running at ${running.base}`, {
        hint: "stop it with sbx stop, then start it on the other port",
      });
    }
    const { client, started } = await start(place, { port: port ?? portFromEnv() });
    const [service, gateway] = await Promise.all([daemonPid(place, "service"), daemonPid(place, "gateway")]);
    const json = args.has("json");
    const words = args.has("all") ? await allVms(client, "start", args) : args.words;
    if (!json && words.length === 0) {
      await print(`sbx is ${started.length === 0 ? "already running" : "running"}: ${client.base}`);
    }
    const vms = await eachVm(words, "starting", json, async (name) => {
      await waitUntilRunning(client, await client.json<VmSummary>("POST", `/vms/${segment(name)}/start`));
      const info = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
      if (!json) {
        await print(`started ${name}`);
        if (info.image?.is_new) await showConflicts(client, name);
      }
      if (!info.devcontainer) return;
      const { startDevcontainer } = await import("./lifecycle.ts");
      await startDevcontainer(client, info, info.devcontainer);
    });
    if (json) await printJson({ gateway: client.base, started, pids: { service, gateway }, vms });
    return vms.length === words.length ? 0 : 1;
  },
};
