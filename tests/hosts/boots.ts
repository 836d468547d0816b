/**
 * Starts of VMs on this host, one after another, as the user who runs it:
 * `boots.ts COUNT` prints one JSON object.
 */
import { join } from "node:path";
import { findTools } from "../../lib/machine/vm/mod.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { HostReport, StartedBy, Starts } from "./host.ts";

const COUNTING = "exec 3>/workspace/count; n=0; while :; do n=$((n+1)); echo $n >&3; sleep 0.05; done";

const count = Number(Deno.args[0]);
const home = await Deno.makeTempDir({ prefix: "sbx-" });
const sbx = await Sbx.make({ home, env: { SBX_TEMPLATES_DIR: join(home, "templates") } });
try {
  await sbx.ok("settings", "set", "vm.templates.enabled", "false");
  const cold = await starts("cold");
  await sbx.ok("settings", "set", "vm.templates.enabled", "true");
  const template = await starts("template");
  const { qemu, vsock, virtiofsd, virtiofsdIsLegacy } = findTools();
  const report: HostReport = {
    qemu: await versionOf(qemu),
    vsock: await versionOf(vsock),
    virtiofsd: virtiofsdIsLegacy ? "QEMU's own" : await versionOf(virtiofsd),
    cold,
    template,
    ...await resumes(),
  };
  console.log(JSON.stringify(report));
} finally {
  await sbx.dispose();
}

async function starts(by: "cold" | "template"): Promise<Starts> {
  const seconds: number[] = [];
  const failures: string[] = [];
  let isPrepared = by === "cold";
  for (let i = 1; i <= count; i++) {
    const name = `${by}-${i}`;
    try {
      if (!isPrepared) await sbx.ok("template", "make");
      isPrepared = true;
      seconds.push(await start(name, by));
    } catch (error) {
      // A template that a VM did not start from is removed.
      isPrepared = by === "cold";
      const log = await sbx.cli("logs", name);
      failures.push(`${name}: ${error instanceof Error ? error.message : error}\n${log.stdout.slice(-2000)}`);
    }
    await sbx.cli("delete", name);
  }
  return result(seconds, failures);
}

function result(seconds: number[], failures: string[]): Starts {
  const times = seconds.length > 0 && { median_s: median(seconds), slowest_s: Math.max(...seconds) };
  return { ok: seconds.length, of: count, ...times, failures };
}

/** Suspends a VM again and again, in which a program counts into a file that stays open. */
async function resumes(): Promise<{ resume?: Starts }> {
  await sbx.ok("create", "kept");
  const { features, workspace } = await info("kept");
  if (!features.save_state) return {};
  const seconds: number[] = [];
  const failures: string[] = [];
  await sbx.ok("exec", "kept", "--", "sh", "-c", `(${COUNTING}) >/dev/null 2>&1 &`);
  for (let i = 1; i <= count; i++) {
    try {
      seconds.push(await resume("kept", join(workspace, "count")));
    } catch (error) {
      failures.push(`resume ${i}: ${error instanceof Error ? error.message : error}`);
    }
  }
  await sbx.cli("delete", "kept");
  return { resume: result(seconds, failures) };
}

/**
 * Suspends and resumes a VM.
 *
 * @param counted file into which a program of it counts
 * @returns time until a program has run in it, in `s`
 * @throws {Error} it was not resumed, or a number is missing
 */
async function resume(name: string, counted: string): Promise<number> {
  await sbx.ok("suspend", name);
  const before = await numbersOf(counted);
  const started = performance.now();
  await sbx.ok("resume", name);
  await sbx.ok("exec", name, "--", "true");
  const seconds = rounded((performance.now() - started) / 1000);
  const { started_by, started_why } = await info(name);
  if (started_by !== "resume") throw new Error(`it was started ${started_by}: ${started_why}`);
  await eventually("its program counts on", async () => (await numbersOf(counted)).length > before.length);
  const numbers = await numbersOf(counted);
  const missing = numbers.findIndex((number, at) => number !== at + 1);
  if (missing >= 0) throw new Error(`after ${missing} its program wrote ${numbers[missing]}`);
  return seconds;
}

async function numbersOf(path: string): Promise<number[]> {
  return (await Deno.readTextFile(path)).split("\n").slice(0, -1).map(Number);
}

async function info(name: string) {
  return JSON.parse(await sbx.ok("info", name, "--json"));
}

/**
 * Starts a VM and runs a program in it that writes to the workspace.
 *
 * @returns time until the VM was ready, in `s`
 * @throws {Error} it did not start in this way: a VM that boots because its template failed runs too
 */
async function start(name: string, by: StartedBy): Promise<number> {
  await sbx.ok("create", name);
  const vm = await info(name);
  if (vm.started_by !== by) throw new Error(`it was started ${vm.started_by}: ${vm.started_why}`);
  const said = await sbx.ok("exec", name, "--", "sh", "-c", "tee /workspace/version </proc/version");
  const written = await Deno.readTextFile(join(vm.workspace, "version"));
  if (!said.startsWith("Linux ") || written !== said) throw new Error(`its program wrote ${written}`);
  const ready = vm.boot_stages.find((stage: { name: string }) => stage.name === "ready");
  return rounded(ready.ms / 1000);
}

async function versionOf(program: string): Promise<string> {
  const { stdout } = await new Deno.Command(program, { args: ["--version"], stderr: "null" }).output();
  return new TextDecoder().decode(stdout).match(/\d+(\.\d+)+/)?.[0] ?? "unknown";
}
