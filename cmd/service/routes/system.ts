import type { Hono } from "hono";
import { type ServiceStatus, systemRoutes, type Version } from "../../../lib/api/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { bootAssets, currentArch, type ListedProfile, listProfiles } from "../../../lib/profile/mod.ts";
import { VERSION, versionInfo } from "../../../lib/base/version/mod.ts";
import type { Service } from "../app.ts";
import { handle } from "../handle.ts";
import { issuesOf } from "../../../lib/service/issue.ts";

const PERMISSIONS = ["read", "write", "net", "env", "run", "ffi", "sys", "import"] as const;

/** What the service is, and how it is. */
export function routeSystem(app: Hono, service: Service): void {
  const { home, supervisor } = service;
  const version: Version = versionInfo();
  const started = performance.now();

  handle(app, systemRoutes.version, () => version);
  handle(app, systemRoutes.status, () => status());
  handle(app, systemRoutes.system, async () => ({
    ...await status(),
    host: { os: Deno.build.os, arch: Deno.build.arch, cpus: navigator.hardwareConcurrency },
    hypervisor: {
      name: supervisor.hypervisor.name,
      features: supervisor.hypervisor.features,
      ...await accelerator(),
    },
    assets: await assets(),
  }));

  async function status(): Promise<ServiceStatus> {
    const vms = supervisor.list();
    const issues = await issuesOf(service);
    const running =
      vms.filter(({ status }) => status === "Running" || status === "Booting" || status === "Paused").length;
    return {
      ok: issues.length === 0,
      version: VERSION,
      pid: Deno.pid,
      uptime_secs: Math.round((performance.now() - started) / 1000),
      vms: { running, total: vms.length },
      issues,
      permissions: Object.fromEntries(
        PERMISSIONS.map((name) => [name, Deno.permissions.querySync({ name }).state]),
      ),
    };
  }

  async function accelerator(): Promise<{ accelerator: string; reason: string }> {
    return await supervisor.accelerator().catch((error) => ({
      accelerator: "unknown",
      reason: message(error),
    }));
  }

  async function assets() {
    return await Promise.all((await listProfiles(home)).map(async (listed) => {
      const missing = await lackOf(listed);
      return { profile_id: listed.id, arch: currentArch(), ready: missing.length === 0, missing };
    }));
  }

  /** What keeps a profile's VMs from booting. */
  async function lackOf(listed: ListedProfile): Promise<string[]> {
    if ("error" in listed) return [listed.error.message];
    return await bootAssets(home, listed.profile, currentArch()).then(() => [], (error) => [message(error)]);
  }
}

function message(error: unknown): string {
  return asSbxError(error, "a check").message;
}
