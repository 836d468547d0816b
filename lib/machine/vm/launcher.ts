/**
 * Start of a machine's programs, which read hostile bytes of its guest: they can use the files of their
 * machine alone, and no network (docs/concepts/threat-model.md). Linux only.
 */
import type { FileRights } from "../../../ffi/libc/landlock.ts";
import { ConfinedLauncher, type ConfinedProgram, SYSTEM } from "../../base/confine/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { MachineSpec } from "./hypervisor.ts";

/** Files that libraries and QEMU read when they start. */
const SYSTEM_FILES = [
  "/etc/ld.so.cache",
  "/etc/localtime",
  "/etc/ssl/openssl.cnf",
  "/etc/gnutls",
  "/etc/crypto-policies",
  "/proc/cpuinfo",
  "/proc/meminfo",
  "/proc/sys/kernel/cap_last_cap",
  "/sys/devices/system",
];
const DEVICES = ["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/kvm"];

/** A program of a machine. */
export type MachineProgram = ConfinedProgram;

/** Files of a machine. */
type MachineFiles = Pick<
  MachineSpec,
  "dir" | "kernel" | "initrd" | "rootfs" | "layer" | "before" | "scratch"
>;

/** Starts the programs of one machine. */
export class Launcher extends ConfinedLauncher {
  /** @param files of its machine */
  constructor(files?: MachineFiles) {
    super({
      rights: rightsOf(files),
      notConfined: (reason) =>
        new SbxError("vm.boot_failed", `the machine's programs could not be confined: ${reason}`, {
          hint: "sbx doctor shows what this host's kernel can do",
        }),
      notStarted: (reason) => new SbxError("vm.boot_failed", reason),
    });
  }

  /**
   * Starts a program.
   *
   * @param keep open files of this process that it gets, by number
   * @throws {SbxError} `vm.boot_failed`: it cannot be confined or started
   */
  spawn(argv: string[], keep: number[] = []): Promise<MachineProgram> {
    return this.start({ argv, cwd: "/", env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" } }, keep);
  }
}

/**
 * Confines a thread as for a machine, as a test of this host.
 *
 * @returns the version of Landlock that holds it; 0: the kernel has none
 * @throws {SbxError} `vm.boot_failed`: it cannot be confined
 */
export async function tryConfinement(): Promise<number> {
  const launcher = new Launcher();
  try {
    return await launcher.confined;
  } finally {
    launcher.close();
  }
}

function rightsOf(files?: MachineFiles): FileRights {
  const rights = { run: SYSTEM, devices: DEVICES };
  if (!files) return { ...rights, read: SYSTEM_FILES };
  const { dir, kernel, initrd, rootfs, layer, before, scratch } = files;
  const images = [kernel, initrd, rootfs, layer, before].filter((path) => path !== undefined);
  return {
    ...rights,
    read: [...SYSTEM_FILES, ...images],
    write: scratch === undefined ? [] : [scratch],
    sockets: [dir],
  };
}
