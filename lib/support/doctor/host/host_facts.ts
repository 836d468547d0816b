/**
 * Facts about a host's virtualization, for hosts that no test of this project reaches: system, processor,
 * KVM, programs, and the starts of VMs. Nothing names the machine, its user or a folder of theirs.
 */
import { formatBytes } from "../../../base/progress/mod.ts";
import { versionInfo } from "../../../base/version/mod.ts";
import type { HostCheck, HostReport } from "./check.ts";

/** Places of a Linux host's facts; a test has its own. */
export interface FactFiles {
  /** text of a file; empty where it cannot be read */
  read(path: string): string;
}

/** One VM's last start. */
export interface HostStart {
  accelerator?: string;
  started_by?: string;
  boot_stages: { name: string; ms: number }[];
}

const THIS_HOST: FactFiles = {
  read(path) {
    try {
      return Deno.readTextFileSync(path);
    } catch {
      return "";
    }
  },
};

/** Checks whose results are facts about the host and name nothing that is its user's. */
const CHECKS: readonly HostCheck["id"][] = ["virtualization", "qemu", "vsock", "virtiofsd", "features"];
/** Fields of /proc/cpuinfo that name a processor: of x86_64, and of arm64. */
const NAMES = ["model name", "vendor_id", "CPU implementer", "CPU part"];
/** Flags of a processor that matter to virtualization; `hypervisor`: the host is itself a VM. */
const FLAGS = ["svm", "vmx", "npt", "ept", "hypervisor"];
const MODULES = ["kvm_amd", "kvm_intel"];

/** @returns lines of text, one for each fact */
export function hostFacts(
  { checks }: Pick<HostReport, "checks">,
  starts: readonly HostStart[],
  { read } = THIS_HOST,
): string {
  const { version, build_hash, platform } = versionInfo();
  const cpu = read("/proc/cpuinfo").split("\n\n")[0];
  const field = (name: string) => new RegExp(`^${name}\\s*:\\s*(.*)$`, "m").exec(cpu)?.[1];
  const flags = field("flags")?.split(" ") ?? [];
  const nested = MODULES.flatMap((module) => {
    const value = read(`/sys/module/${module}/parameters/nested`).trim();
    return value === "" ? [] : [`${module}, nested=${value}`];
  });
  const facts: [string, string][] = [
    ["date", new Date().toISOString().slice(0, 10)],
    ["sbx", `${version} (${build_hash}), ${platform}`],
    ["system", /^PRETTY_NAME="?([^"\n]*)/m.exec(read("/etc/os-release"))?.[1] ?? Deno.build.os],
    ["kernel", Deno.osRelease()],
    ["processor", NAMES.flatMap((name) => field(name) ?? []).join(", ") || Deno.build.arch],
    [
      "processors",
      `${navigator.hardwareConcurrency}, ${formatBytes(Deno.systemMemoryInfo().total)} of memory`,
    ],
    ["its flags", FLAGS.filter((flag) => flags.includes(flag)).join(" ") || "none of virtualization"],
    ["KVM", nested.join("; ") || "no module of x86_64"],
    ...checks.filter(({ id }) => CHECKS.includes(id)).map((
      { title, state, detail },
    ): [string, string] => [title, `${state}: ${detail}`]),
    ...starts.map((start, at): [string, string] => [`start ${at + 1}`, startOf(start)]),
    ...starts.length > 0
      ? []
      : [["starts", "no VM is running: sbx create one, and write the report again"] as [string, string]],
  ];
  return facts.map(([name, value]) => `${name}: ${value}\n`).join("");
}

function startOf({ accelerator = "unknown", started_by = "unknown", boot_stages }: HostStart): string {
  return `${accelerator}, ${started_by}: ${
    boot_stages.map(({ name, ms }) => `${name} ${Math.round(ms)} ms`).join(", ")
  }`;
}
