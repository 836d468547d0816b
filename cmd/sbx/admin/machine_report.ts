/** Reports on this machine: of `sbx doctor`, the debug report, and the support bundle of both. */
import { join, resolve } from "node:path";
import type {
  DebugReport,
  ProfileList,
  ServiceStatus,
  SessionList,
  VmInfo,
  VmListed,
} from "../../../lib/client/api/mod.ts";
import { type Home, home, writeAtomic } from "../../../lib/base/home/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import { count, didYouMean } from "../../../lib/base/text/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import { Client, daemonPid, segment, serviceAnswers } from "../../../lib/client/mod.ts";
import { checkLine } from "../../../lib/support/doctor/mod.ts";
import {
  type HostCheck,
  hostFacts,
  type HostReport,
  hostReport,
  type HostStart,
  PROBE_MS,
} from "../../../lib/support/doctor/host/mod.ts";
import type { Redactor } from "../../../lib/base/redact/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { debugReport, machineRedactor, stateFromDisk } from "../../../lib/support/debug/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import type { Bundle } from "../../../lib/support/bundle/mod.ts";

/** Checks this machine, its home and its service's report, for `sbx doctor` without a name. */
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
    const signal = AbortSignal.timeout(2 * PROBE_MS);
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

/** Longest wait for the service's report, in `ms`: it hashes the image. */
const REPORT_MS = timeLimit(60_000);

/**
 * Fetches the report, or makes it and notes that.
 *
 * @param options.hosts replaces host names and addresses too
 */
export async function fetchReport(
  place: Home = home(Deno.env),
  { hosts = false } = {},
): Promise<DebugReport> {
  const report = await serviceAnswers(place) ? await fetchFromService(place) : undefined;
  if (!report) note("sbx: the service does not answer; this report is made from the files of the home");
  const complete = report ?? await debugReport(place, await stateFromDisk(place));
  return hosts ? (await machineRedactor(place, { hosts })).redactor.value(complete) : complete;
}

async function fetchFromService(place: Home): Promise<DebugReport | undefined> {
  const client = Client.unix(place.serviceSocket);
  try {
    const signal = AbortSignal.timeout(REPORT_MS);
    return await client.json<DebugReport>("GET", "/debug/report", { signal });
  } catch {
    return undefined;
  } finally {
    client.http?.close();
  }
}

const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Longest wait for one answer of the service, in `ms`. */
const ANSWER_MS = timeLimit(10_000);

/** Options of a bundle. */
export interface BundleRequest {
  /** default: a name with the date, in this folder */
  out?: string;
  /** id of a session, or name of a VM */
  session?: string;
  hosts?: boolean;
}

/** Makes a bundle, lists its content, and writes it. @returns its path and its list */
export async function makeBundle(
  request: BundleRequest,
): Promise<{ path: string; files: Omit<Bundle["files"][number], "bytes">[] }> {
  // Unchecked: this may have to report a home owned by another user.
  const place = home(Deno.env);
  const path = resolve(request.out ?? `sbx-support-${new Date().toISOString().slice(0, 10)}.tar.zst`);
  if (!path.endsWith(".tar.zst")) {
    throw new SbxError("bundle.invalid", `${path} does not end with .tar.zst`, {
      hint: "give a name that ends with .tar.zst",
    });
  }
  // It loads the database, which doctor and debug report must not need.
  const { collectBundle, writeBundle } = await import("../../../lib/support/bundle/mod.ts");
  const client = await serviceAnswers(place) ? Client.unix(place.serviceSocket) : undefined;
  try {
    const session = request.session && await findSession(client, request.session);
    // One after the other: a service busy with one would look unhealthy to the next.
    const report = await fetchReport(place, request);
    const doctor = await diagnoseHost(place);
    const lints = client && await fetchLints(client).catch(() => undefined);
    const bundle = await collectBundle(place, {
      report,
      doctor,
      ...(lints && { lints }),
      ...(session && { session }),
      hosts: request.hosts,
    });
    note("This goes into the bundle, redacted:");
    for (const { path, size } of bundle.files) note(`  ${path} (${formatBytes(size)})`);
    await writeBundle(path, bundle).catch((cause) => {
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("bundle.not_written", `cannot write the bundle to ${path}`, {
        cause,
        hint: "name a file in a folder that you may write to, on a disk with room: --out FILE.tar.zst",
      });
    });
    return { path, files: bundle.files.map(({ bytes: _, ...file }) => file) };
  } finally {
    client?.http?.close();
  }
}

/**
 * Writes facts about this host's virtualization to a file in this folder, as support
 * for hosts that were not tested.
 *
 * @returns its path
 * @throws {SbxError} `report.not_written`
 */
export async function writeFacts(place: Home, report: HostReport): Promise<string> {
  const path = resolve(`sbx-host-${new Date().toISOString().slice(0, 10)}.txt`);
  const text = hostFacts(report, await runningStarts(place));
  await writeAtomic(path, text).catch((cause) => {
    throw new SbxError("report.not_written", `cannot write the report to ${path}`, {
      cause,
      hint: "run it in a folder that you may write to, on a disk with room",
    });
  });
  return path;
}

/** Starts of the VMs that run; none without a service. */
async function runningStarts(place: Home): Promise<HostStart[]> {
  if (!await serviceAnswers(place)) return [];
  const client = Client.unix(place.serviceSocket);
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const { vms } = await client.json<{ vms: VmListed[] }>("GET", "/vms/list", { signal });
    const running = vms.filter(({ status }) => status === "Running");
    return await Promise.all(
      running.map(({ id }) => client.json<VmInfo>("GET", `/vms/${segment(id)}/info`, { signal })),
    );
  } finally {
    client.http?.close();
  }
}

async function findSession(client: Client | undefined, word: string): Promise<string> {
  if (SESSION_ID.test(word)) return word;
  const signal = AbortSignal.timeout(ANSWER_MS);
  const list = await client?.json<SessionList>("GET", "/sessions/list", { signal });
  const id = list?.sessions.find(({ name }) => name === word)?.id;
  if (id !== undefined) return id;
  throw new SbxError("ledger.not_found", `no session is called "${word}"`, {
    hint: list
      ? didYouMean(word, list.sessions.map(({ name }) => name)) ?? "sbx sessions lists them"
      : "without a service, give the session's id: a folder of sessions/ or ledgers/",
  });
}

async function fetchLints(client: Client): Promise<Record<string, unknown>> {
  const signal = AbortSignal.timeout(ANSWER_MS);
  const { profiles } = await client.json<ProfileList>("GET", "/profiles/list", { signal });
  const lints = await Promise.all(profiles.map(async ({ id }) => {
    const path = `/profiles/${segment(id, "profile")}/enforcement/rules/list`;
    return [id, (await client.json<{ lints: unknown }>("GET", path, { signal })).lints] as const;
  }));
  return Object.fromEntries(lints);
}
