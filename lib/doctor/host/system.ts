/** What checks ask a machine: its own answers, or those that a test gives in its place. */
import { hostHypervisor, type Hypervisor } from "../../vm/mod.ts";
import { PROBE_MS } from "./limit.ts";

/** The machine that is checked. */
export interface HostSystem {
  /** `linux`, `darwin`, … */
  os: string;
  /** `x86_64` or `aarch64` */
  arch: string;
  /** the program that runs, which on a Mac must have the entitlement for virtual machines */
  exe: string;
  /** Output of a program; undefined where it is missing, fails or takes too long. */
  output(program: string, args: readonly string[]): Promise<string | undefined>;
  hypervisor(): Pick<Hypervisor, "features" | "lackOf" | "requireHost">;
}

/** This machine. */
export const THIS_SYSTEM: HostSystem = {
  os: Deno.build.os,
  arch: Deno.build.arch,
  exe: Deno.execPath(),
  output,
  hypervisor: () => hostHypervisor(),
};

async function output(program: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command(program, {
      args: [...args],
      stdin: "null",
      stderr: "null",
      signal: AbortSignal.timeout(PROBE_MS),
    }).output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  } catch {
    return undefined;
  }
}
