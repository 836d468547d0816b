import type { SystemStatus } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { type Home, home } from "../../../lib/base/home/mod.ts";
import {
  Client,
  daemonPid,
  findUnreachableGateway,
  gatewayClient,
  serviceAnswers,
} from "../../../lib/client/mod.ts";
// Not through mod.ts, which loads the gateway.
import { GATEWAY_PERMISSIONS } from "../../../lib/client/gateway/permission/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { pairs } from "../output.ts";
import { sinkLines } from "../sinks.ts";
import { updateLines } from "../admin/update.ts";
import { formatRam } from "../vm/new_vm.ts";

export const command: Command = {
  name: "status",
  usage: "[--watch] [--json] [--metrics]",
  summary: "show service, gateway, hypervisor, assets and permissions",
  notes: ["The exit code is 1 if there is a problem."],
  options: [
    { name: "watch", about: "show it again every two seconds, until ctrl-c" },
    { name: "metrics", about: "print the metrics of the running service instead, as Prometheus reads them" },
    JSON_OPTION,
  ],
  examples: ["sbx status", "sbx status --json"],
  async run(args) {
    if (args.has("metrics")) return await showMetrics();
    let ok = await show(args.has("json"));
    // A signal ends the loop.
    while (args.has("watch")) {
      await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
      // Each report is a line of JSON, or replaces the previous one on a terminal.
      if (!args.has("json") && Deno.stdout.isTerminal()) await print("\x1b[H\x1b[2J");
      ok = await show(args.has("json"));
    }
    return ok ? 0 : 1;
  },
};

/** Prints the metrics of a running service; starts none. */
async function showMetrics(): Promise<number> {
  const place = home(Deno.env);
  if (!await serviceAnswers(place)) {
    throw new SbxError("service.unreachable", "no service of this home runs, so it has no metrics", {
      hint: "sbx start starts it",
    });
  }
  const client = Client.unix(place.serviceSocket);
  try {
    const answer = await client.send("GET", "/metrics", { signal: AbortSignal.timeout(METRICS_MS) });
    await print((await answer.text()).trimEnd());
    return 0;
  } finally {
    client.http.close();
  }
}

/** Longest wait for the metrics, in `ms`. */
const METRICS_MS = timeLimit(30_000);
/** `ms` between two reports. */
const WATCH_MS = 2000;

/** Prints one report. @returns whether all is well */
async function show(json: boolean): Promise<boolean> {
  // Unchecked: this may have to report a home owned by another user.
  const place = home(Deno.env);
  const [isUp, gateway] = await Promise.all([serviceAnswers(place), gatewayClient(place)]);
  const system = isUp ? await fetchSystemStatus(place.serviceSocket) : undefined;
  const pid = await daemonPid(place, "gateway");
  const unreachable = gateway ? undefined : await findUnreachableGateway(place);
  const ok = system?.ok === true && gateway !== undefined;
  const issues = system ? [] : await issuesWithoutService(place);
  const report = {
    ok,
    gateway: gateway
      ? { running: true, url: gateway.base, pid, permissions: GATEWAY_PERMISSIONS }
      : unreachable
      ? { running: true, pid: unreachable.pid, missing: unreachable.missing }
      : { running: false },
    service: system ? { running: true, ...system } : { running: false, issues },
    home: place.dir,
  };
  if (json) await printJson(report);
  else await print(formatStatus(report.gateway, system ?? { issues }, place.dir));
  return ok;
}

/** Issues found in the files of the home, where no service runs. */
async function issuesWithoutService(place: Home): Promise<string[]> {
  const { stateFromDisk } = await import("../../../lib/support/debug/mod.ts");
  const { issues, defunct } = await stateFromDisk(place);
  // The first one reports that no service answers.
  return [...issues.slice(1), ...defunct.map(({ name, last_error }) => `VM "${name}": ${last_error}`)];
}

async function fetchSystemStatus(socket: string): Promise<SystemStatus> {
  const client = Client.unix(socket);
  try {
    return await client.json<SystemStatus>("GET", "/system/status");
  } finally {
    client.http?.close();
  }
}

function formatStatus(
  gateway: { running: boolean; url?: string; pid?: number; missing?: string },
  system: SystemStatus | Pick<SystemStatus, "issues">,
  dir: string,
): string {
  const lines: [string, string | undefined][] = [
    ["home", dir],
    ["gateway", gatewayState(gateway)],
    [
      "service",
      "pid" in system ? `${system.version} (pid ${system.pid})` : "not running; start it with sbx start",
    ],
  ];
  if (gateway.running) lines.push(["gateway permissions", formatPermissions(GATEWAY_PERMISSIONS)]);
  if ("pid" in system) {
    const { vms, host, hypervisor, assets, templates, idle_suspend } = system;
    lines.push(
      ["service permissions", formatPermissions(system.permissions)],
      ["host", `${host.os} ${host.arch}, ${host.cpus} CPUs`],
      ["hypervisor", `${hypervisor.name}, ${hypervisor.accelerator}: ${hypervisor.reason}`],
      ...Object.entries(hypervisor.missing).map((
        [feature, lack],
      ): [string, string] => ["without", `${feature}: ${lack}`]),
      ["VMs", `${vms.running} running of ${vms.total}`],
      ...assets.map(({ profile_id, arch, ready, missing }): [string, string] => [
        "assets",
        `${profile_id} ${arch}: ${ready ? "ready" : missing.join(", ") || "not ready"}`,
      ]),
      ["templates", formatTemplates(templates)],
      ["idle VMs", formatIdle(idle_suspend)],
      ...updateLines(system.update).filter(([name]) => name !== "sbx"),
      // A service of an older sbx sends no old programs, disk, sinks or steps of setup.
      ["old program", system.old_programs && formatOld(system.old_programs)],
      ["disk", system.disk && formatDisk(system.disk)],
      ["corp", system.corp],
      ...sinkLines(system.sinks ?? []),
      ["set-up", system.setup && formatSetup(system.setup)],
    );
  }
  return pairs([...lines, ...system.issues.map((issue): [string, string] => ["issue", issue])]);
}

function formatSetup({ completed_steps }: SystemStatus["setup"]): string {
  return completed_steps.length > 0 ? `done: ${completed_steps.join(", ")}` : "no step is recorded";
}

function formatOld(old: SystemStatus["old_programs"]): string | undefined {
  if (old.length === 0) return undefined;
  const names = old.map(({ program, vm, pid }) => `${vm === undefined ? program : `VM ${vm}`} (pid ${pid})`);
  return `${names.join(", ")} run on with a replaced program; restart them with sbx update restart`;
}

function formatDisk({ free_bytes, records_bytes, records_max_bytes }: SystemStatus["disk"]): string {
  const most = records_max_bytes > 0 ? ` of at most ${formatBytes(records_max_bytes)}` : "";
  return `${formatBytes(free_bytes)} free; records take ${formatBytes(records_bytes)}${most}`;
}

function formatTemplates(
  { enabled, count, bytes, making, problems, spare_ram_mb }: SystemStatus["templates"],
): string {
  if (!enabled) return "off (vm.templates.enabled)";
  const parts = [
    `${count} (${formatBytes(bytes)})`,
    ...making > 0 ? [`making ${making}`] : [],
    ...spare_ram_mb ? [`one machine of ${formatRam(spare_ram_mb)} is started for the next VM`] : [],
    ...problems,
  ];
  return parts.join("; ");
}

function formatIdle({ minutes, problem }: SystemStatus["idle_suspend"]): string | undefined {
  return problem ?? (minutes > 0 ? `suspended after ${count(minutes, "minute")}` : undefined);
}

function gatewayState({ running, url, pid, missing }: Parameters<typeof formatStatus>[0]): string {
  if (missing) {
    return `running (pid ${pid}), but its ${missing} file is missing; restart it with sbx stop and sbx start`;
  }
  return running ? `${url} (pid ${pid})` : "not running; start it with sbx start";
}

function formatPermissions(states: Record<string, string>): string {
  const permissions = Object.entries(states).filter(([, state]) =>
    state !== "none" && state !== "denied" && state !== "prompt"
  );
  return permissions.map(([name, state]) => state === "granted" ? name : `${name} (${state})`).join(", ") ||
    "none";
}
