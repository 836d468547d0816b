/**
 * A Mac: its system, processor, the library that runs VMs, and the entitlement that the program needs for it.
 */
import { failed, failure, type HostProbe, note, ok, type Outcome } from "./check.ts";
import type { HostSystem } from "./system.ts";

/** First macOS with all that the library calls, and the first that can save machines. */
const MACOS_MIN = 13, MACOS_SAVES = 14;
const ENTITLEMENT = "com.apple.security.virtualization";
/** Builds the library, and signs it and the program of a checkout. */
const BUILD = Deno.build.standalone ? "install sbx again: its installer signs it" : "make dylib";

export const MAC_PROBES: HostProbe[] = [
  { id: "macos", title: "macOS", run: (_, system) => checkVersion(system) },
  { id: "virtualization", title: "virtualization", run: (_, system) => checkProcessor(system) },
  { id: "entitlement", title: "entitlement", run: (_, system) => checkEntitlement(system) },
  { id: "library", title: "library of VMs", run: (_, system) => checkLibrary(system) },
  { id: "features", title: "suspend and fork", run: (_, system) => checkFeatures(system) },
];

async function checkVersion({ output }: HostSystem): Promise<Outcome> {
  const version = await output("sw_vers", ["-productVersion"]);
  const major = Number.parseInt(version ?? "", 10);
  if (Number.isNaN(major)) return failed("sw_vers reports no version", "sw_vers -productVersion");
  if (major < MACOS_MIN) {
    return failed(`${version}; VMs need macOS ${MACOS_MIN}`, "softwareupdate --list");
  }
  return major < MACOS_SAVES
    ? note(`${version}; machines can be saved from macOS ${MACOS_SAVES} on`)
    : ok(version!);
}

async function checkProcessor({ output, arch }: HostSystem): Promise<Outcome> {
  if (arch !== "aarch64") {
    return failed(
      "a Mac with an Intel processor cannot boot the guest's kernel",
      "use a Mac with Apple silicon",
    );
  }
  const supported = await output("sysctl", ["-n", "kern.hv_support"]);
  return supported === "1" ? ok("the processor runs virtual machines") : failed(
    "the processor, or the machine that this one runs in, offers no virtualization",
    "sysctl kern.hv_support",
  );
}

/** Without the entitlement the framework refuses every machine. */
async function checkEntitlement({ output, exe }: HostSystem): Promise<Outcome> {
  const entitlements = await output("codesign", ["--display", "--xml", "--entitlements", "-", exe]);
  if (entitlements === undefined) return failed(`${exe} is not signed`, BUILD);
  const granted = new RegExp(`<key>${ENTITLEMENT.replaceAll(".", "\\.")}</key>\\s*<true/>`).test(
    entitlements,
  );
  return granted ? ok(`${exe} may run virtual machines`) : failed(`${exe} lacks ${ENTITLEMENT}`, BUILD);
}

function checkLibrary({ hypervisor }: HostSystem): Outcome {
  try {
    const vz = hypervisor();
    vz.requireHost();
    return vz.features.shared_folder
      ? ok("it loads, and runs machines with a shared folder")
      : failed("it runs no machine with a shared folder", BUILD);
  } catch (error) {
    return failure(error, BUILD);
  }
}

function checkFeatures({ hypervisor }: HostSystem): Outcome {
  try {
    const vz = hypervisor();
    const lack = vz.lackOf("save_state") ?? vz.lackOf("live_fork");
    return lack === undefined ? ok("VMs can be suspended and forked") : note(lack);
  } catch {
    return note("unknown without the library");
  }
}
