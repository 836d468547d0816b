/** VMs whose memory is on disk, while no machine of theirs runs. */
import type { Assets } from "../../release/asset/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { MachineInfo } from "../../session/ipc/mod.ts";
import {
  discardSuspended,
  isSuspended,
  readOrigin,
  type VmPaths,
  type VmRecord,
  writeState,
} from "../../session/mod.ts";
import type { AcceleratorChoice, Hypervisor } from "../../machine/vm/mod.ts";
import type { AcceleratorChooser } from "./accelerator.ts";
import type { Vm } from "./vm.ts";

/** The host's machines. */
interface Host {
  accelerators: Pick<AcceleratorChooser, "choose">;
  hypervisor: Pick<Hypervisor, "identity">;
}

/** Features that need a running VM, in words. */
export type Asker = "a program" | "a terminal" | "a port" | "a file" | "an MCP tool";

/** True if a suspended VM resumes automatically: its suspension was not ordered. */
export function comesBack({ state }: Pick<Vm, "state">): boolean {
  return state.state === "Suspended" && state.suspended_by === "idle";
}

/** The part of a suspended VM that a new start must keep: memory fits only the machine that wrote it. */
export async function keptMachine(
  { record, paths }: Pick<Vm, "record" | "paths">,
): Promise<Partial<VmRecord>> {
  if (!await isSuspended(paths)) return {};
  const { cpus, ram_mb, assets } = record;
  return { cpus, ram_mb, assets };
}

/** Gives up a VM's memory, as if its machine had been switched off. @returns its state then */
export async function forgetMemory({ paths, state }: Vm): Promise<MachineInfo> {
  await discardSuspended(paths);
  const stopped: MachineInfo = { ...state, state: "Stopped", last_error: undefined };
  await writeState(paths, stopped);
  return stopped;
}

/**
 * The accelerator that a VM starts with: for memory that of its machine, which any processor has for an emulated one.
 *
 * @throws {SbxError} `vm.host_differs`: the memory is of a machine that this host does not run
 */
export async function acceleratorOf(
  { record, paths }: Pick<Vm, "record"> & { paths: VmPaths },
  { accelerators, hypervisor }: Host,
  assets?: Assets,
): Promise<AcceleratorChoice> {
  const origin = await isSuspended(paths) ? await readOrigin(paths) : undefined;
  if (!origin) return await accelerators.choose(assets);
  const { accelerator, host } = origin;
  if (accelerator === "tcg") return { accelerator, reason: "its memory is of an emulated machine" };
  const choice = await accelerators.choose(assets);
  const differs = (what: string, remedy: string) =>
    new SbxError("vm.host_differs", `the memory of "${record.name}" is of ${what}`, {
      hint: `${remedy}; sbx stop ${record.name} gives its memory up: it then starts from its disk`,
    });
  if (choice.accelerator !== accelerator) {
    throw differs(
      `a machine under ${accelerator}, and this host's machines are under ${choice.accelerator}: ${choice.reason}`,
      "sbx doctor tries again what this host can do",
    );
  }
  const { cpus, ram_mb, assets: { arch } } = record;
  const here = await hypervisor.identity({ arch, cpus, ramMb: ram_mb, accelerator });
  const lack = lackOfProcessor(host.processor, here.processor);
  if (lack === undefined) return choice;
  throw differs(`a machine on another processor: ${lack}`, "resume it on a machine with that processor");
}

/** Names of the lists of features in a processor's description. */
const FEATURES = ["flags", "Features"];
/** Most features that an error names. */
const NAMED_MAX = 5;

/**
 * Processor properties that memory needs and this host lacks: the same model, with at least its features.
 *
 * @param needed lines of `name: value`, like `here`
 */
export function lackOfProcessor(needed: string, here: string): string | undefined {
  const ours = linesOf(here);
  for (const [name, value] of linesOf(needed)) {
    const own = ours.get(name) ?? "";
    if (!FEATURES.includes(name)) {
      if (own !== value) return `it needs ${name} ${value}, this host has ${own || "none"}`;
      continue;
    }
    const has = new Set(own.split(" "));
    const missing = value.split(" ").filter((feature) => !has.has(feature));
    if (missing.length > 0) {
      return `it needs ${missing.slice(0, NAMED_MAX).join(", ")}, which this host lacks`;
    }
  }
  return undefined;
}

function linesOf(description: string): Map<string, string> {
  return new Map(
    description.split("\n").map((line) => {
      const colon = line.indexOf(":");
      const [name, value] = colon < 0 ? ["processor", line] : [line.slice(0, colon), line.slice(colon + 1)];
      return [name.trim(), value.trim()];
    }),
  );
}
