/** `sbx doctor` without a name: this machine, its home and its service. */
import { join } from "node:path";
import type { ServiceStatus } from "../../../lib/client/api/mod.ts";
import { type Home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import { Client, daemonPid, serviceAnswers } from "../../../lib/client/mod.ts";
import { checkLine } from "../../../lib/support/doctor/mod.ts";
import {
  type HostCheck,
  type HostReport,
  hostReport,
  PROBE_MS,
} from "../../../lib/support/doctor/host/mod.ts";
import type { Redactor } from "../../../lib/base/redact/mod.ts";

/** Checks the machine and its service's report. */
export async function diagnoseHost(home: Home, options: { fix?: boolean } = {}): Promise<HostReport> {
  const report = await hostReport(home, options);
  const checks = [...report.checks, await checkService(home)];
  return { ...report, checks, ok: checks.every(({ state }) => state !== "failed") };
}

/** One screen: one line per check, and the command to fix a failed one below it. */
export function formatHost({ ok, checks, fixed }: HostReport): string {
  const failures = checks.filter(({ state }) => state === "failed").length;
  return [
    ...fixed.map((did) => `mended: ${did}`),
    ...checks.flatMap((check) => {
      const line = checkLine(check, check.title);
      const remedy = check.fixable ? `${check.remedy} (sbx doctor --fix does it)` : check.remedy;
      return remedy === undefined ? [line] : [line, `  ${remedy}`];
    }),
    ok ? "This machine can run VMs." : `${count(failures, "problem")}; the line below each mends it.`,
  ].map((line) => plain(line)).join("\n");
}

/** Keeps the report for `sbx debug`: the latest doctor log. A read-only home has none. */
export async function keepReport(home: Home, report: HostReport, redactor: Redactor): Promise<void> {
  const text = `${new Date().toISOString()}\n${formatHost(report)}\n`;
  try {
    // A missing home stays missing.
    if (!await Deno.stat(home.dir).then(() => true, () => false)) return;
    await Deno.mkdir(home.logsDir, { recursive: true, mode: 0o700 });
    await writeAtomic(join(home.logsDir, "doctor.log"), redactor.text(text));
  } catch {
    // The report itself has the reason.
  }
}

async function checkService(home: Home): Promise<HostCheck> {
  const base = { id: "service", title: "service" };
  if (!await serviceAnswers(home)) {
    const pid = await daemonPid(home, "service").catch(() => undefined);
    return pid === undefined
      ? { ...base, state: "skipped", detail: "not running; the first command that needs it starts it" }
      : {
        ...base,
        state: "failed",
        detail: `pid ${pid} does not answer`,
        remedy: "sbx stop, then sbx start",
      };
  }
  const client = Client.unix(home.serviceSocket);
  try {
    const signal = AbortSignal.timeout(5 * PROBE_MS);
    const status = await client.json<ServiceStatus>("GET", "/status", { signal });
    const running = `version ${status.version}, ${count(status.vms.running, "VM")} running`;
    if (status.version !== VERSION) {
      const detail = `it has version ${status.version}, this program ${VERSION}`;
      return { ...base, state: "failed", detail, remedy: "sbx stop, then sbx start" };
    }
    return status.ok ? { ...base, state: "ok", detail: running } : {
      ...base,
      state: "failed",
      detail: `${running}; ${count(status.issues.length, "issue")}: ${status.issues[0]}`,
      remedy: "sbx status",
    };
  } catch {
    return {
      ...base,
      state: "failed",
      detail: "does not answer in time",
      remedy: "sbx stop, then sbx start",
    };
  } finally {
    client.http?.close();
  }
}
