import type { SystemStatus } from "../../../lib/api/system.ts";
import {
  Client,
  daemonPid,
  gatewayClient,
  serviceAnswers,
  unreachableGateway,
} from "../../../lib/client/mod.ts";
import { GATEWAY_PERMISSIONS } from "../../../lib/gateway/permission.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Command, JSON_OPTION } from "../command.ts";
import { pairs, print, printJson } from "../output.ts";

export const command: Command = {
  name: "status",
  usage: "[--json]",
  summary:
    "what runs, what boots the VMs and why, the assets, what each role may do; exit code 1 if not all is well",
  options: [JSON_OPTION],
  examples: ["sbx status", "sbx status --json"],
  async run(given) {
    const place = home();
    const [up, gateway] = await Promise.all([serviceAnswers(place), gatewayClient(place)]);
    const system = up ? await systemStatus(place.serviceSocket) : undefined;
    const pid = await daemonPid(place, "gateway");
    const lost = gateway ? undefined : await unreachableGateway(place);
    const well = system?.ok === true && gateway !== undefined;
    const report = {
      ok: well,
      gateway: gateway
        ? { running: true, url: gateway.base, pid, permissions: GATEWAY_PERMISSIONS }
        : lost
        ? { running: true, pid: lost.pid, missing: lost.missing }
        : { running: false },
      service: system ? { running: true, ...system } : { running: false },
      home: place.dir,
    };
    if (given.on("json")) await printJson(report);
    else await print(human(report.gateway, system, place.dir));
    return well ? 0 : 1;
  },
};

async function systemStatus(socket: string): Promise<SystemStatus> {
  const client = Client.unix(socket);
  try {
    return await client.json<SystemStatus>("GET", "/system/status");
  } finally {
    client.http?.close();
  }
}

function human(
  gateway: { running: boolean; url?: string; pid?: number; missing?: string },
  system: SystemStatus | undefined,
  dir: string,
): string {
  const lines: [string, string | undefined][] = [
    ["home", dir],
    ["gateway", gatewayState(gateway)],
    ["service", system ? `${system.version} (pid ${system.pid})` : "does not run: sbx start"],
  ];
  if (gateway.running) lines.push(["gateway may", permissions(GATEWAY_PERMISSIONS)]);
  if (system) {
    const { vms, host, hypervisor, assets, issues } = system;
    lines.push(
      ["service may", permissions(system.permissions)],
      ["host", `${host.os} ${host.arch}, ${host.cpus} CPUs`],
      ["hypervisor", `${hypervisor.name}, ${hypervisor.accelerator}: ${hypervisor.reason}`],
      ["VMs", `${vms.running} running of ${vms.total}`],
      ...assets.map(({ profile_id, arch, ready, missing }): [string, string] => [
        "assets",
        `${profile_id} ${arch}: ${ready ? "ready" : missing.join(", ") || "not ready"}`,
      ]),
      ...issues.map((issue): [string, string] => ["issue", issue]),
    );
  }
  return pairs(lines);
}

function gatewayState({ running, url, pid, missing }: Parameters<typeof human>[0]): string {
  if (missing) return `runs (pid ${pid}), but its ${missing} file is gone: sbx stop, then sbx start`;
  return running ? `${url} (pid ${pid})` : "does not run: sbx start";
}

function permissions(of: Record<string, string>): string {
  const held = Object.entries(of).filter(([, state]) =>
    state !== "none" && state !== "denied" && state !== "prompt"
  );
  return held.map(([name, state]) => state === "granted" ? name : `${name} (${state})`).join(", ") ||
    "nothing";
}
