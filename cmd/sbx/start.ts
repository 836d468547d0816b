import { daemonPid, gatewayClient, start } from "../../lib/client/mod.ts";
import { SbxError } from "../../lib/error/mod.ts";
import { home } from "../../lib/home/mod.ts";
import { type Command, JSON_OPTION } from "./command.ts";
import { portFromEnv, portOf } from "./connect.ts";
import { print, printJson } from "./output.ts";

export const command: Command = {
  name: "start",
  usage: "[--port N] [--json]",
  summary: "start the service and the gateway, if they do not run",
  options: [
    {
      name: "port",
      value: "N",
      about: "TCP port of the gateway on 127.0.0.1 (SBX_GATEWAY_PORT, else 19222; 0: any)",
    },
    JSON_OPTION,
  ],
  examples: ["sbx start", "sbx start --port 0"],
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
    if (given.on("json")) {
      await printJson({ gateway: client.base, started, pids: { service, gateway } });
    } else {
      await print(`sbx ${started.length === 0 ? "runs already" : "runs"}: ${client.base}`);
    }
    return 0;
  },
};
