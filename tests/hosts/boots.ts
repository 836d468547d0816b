/** Starts of VMs on this host, one after another, as the user who runs it: `boots.ts COUNT` prints one JSON object. */
import { join } from "node:path";
import { findTools } from "../../lib/vm/mod.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded } from "../helper/statistics.ts";
import type { HostReport, StartedBy, Starts } from "./host.ts";

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
  };
  console.log(JSON.stringify(report));
} finally {
  await sbx.dispose();
}

async function starts(by: StartedBy): Promise<Starts> {
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
  const times = seconds.length > 0 && { median_s: median(seconds), slowest_s: Math.max(...seconds) };
  return { ok: seconds.length, of: count, ...times, failures };
}

/**
 * Starts a VM and runs a program in it that writes to the workspace.
 *
 * @returns time until the VM was ready, in `s`
 * @throws {Error} it did not start in this way: a VM that boots because its template failed runs too
 */
async function start(name: string, by: StartedBy): Promise<number> {
  await sbx.ok("create", name);
  const vm = JSON.parse(await sbx.ok("info", name, "--json"));
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
