import { SbxError } from "../base/error/mod.ts";
import { checkUserNamespace } from "./user_namespace.ts";

/** Programs of the QEMU hypervisor on the host. */
export interface Tools {
  qemu: string;
  vsock: string;
  virtiofsd: string;
  /** virtiofsd is QEMU's own, with arguments like `-o source=`, not its Rust successor */
  virtiofsdIsLegacy: boolean;
  /** virtiofsd can hand over its open files (1.11 and later) */
  virtiofsdCanMigrate: boolean;
}

/** Versions from which a machine with a shared folder can be written down. */
const SAVING = { qemu: [8, 2], virtiofsd: [1, 11] } as const;

const SEARCH = ["/usr/bin", "/usr/local/bin", "/usr/libexec", "/usr/lib/qemu", "/usr/sbin"];
const QEMU: Record<string, string> = { x86_64: "qemu-system-x86_64", aarch64: "qemu-system-aarch64" };

/**
 * Finds the host's programs, and checks that this user can run them.
 *
 * @throws {SbxError} `host.tools_missing`: names each missing one
 */
export function findTools(): Tools {
  const names = [QEMU[Deno.build.arch], "vhost-device-vsock", "virtiofsd"];
  const [qemu, vsock, virtiofsd] = names.map(find);
  const missing = names.filter((_, i) => ![qemu, vsock, virtiofsd][i]);
  if (missing.length > 0) {
    throw new SbxError("host.tools_missing", `this machine cannot run VMs: ${missing.join(", ")} not found`, {
      hint: "install what is missing: scripts/deps.sh, or make setup",
    });
  }
  checkUserNamespace({ uid: Deno.uid() ?? 0, find, read });
  const virtiofsdIsLegacy = virtiofsd!.startsWith("/usr/lib/qemu/");
  return {
    qemu: qemu!,
    vsock: vsock!,
    virtiofsd: virtiofsd!,
    virtiofsdIsLegacy,
    virtiofsdCanMigrate: !virtiofsdIsLegacy && isFrom(SAVING.virtiofsd, versionOf(virtiofsd!)),
  };
}

/**
 * Why machines of this host cannot be written down with their shared folder.
 *
 * @returns undefined when they can
 */
export function lackOfSaveState(): string | undefined {
  let tools: Tools;
  try {
    tools = findTools();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  const qemu = versionOf(tools.qemu);
  if (tools.virtiofsdCanMigrate && isFrom(SAVING.qemu, qemu)) return undefined;
  const virtiofsd = tools.virtiofsdIsLegacy
    ? "QEMU's own virtiofsd"
    : `virtiofsd ${versionOf(tools.virtiofsd)}`;
  return `needs QEMU ${SAVING.qemu.join(".")} and virtiofsd ${SAVING.virtiofsd.join(".")} or later; ` +
    `this host has QEMU ${qemu} and ${virtiofsd} (Debian trixie has both)`;
}

/** Versions of programs, by path: asking takes a process. */
const versions = new Map<string, string>();

function versionOf(program: string): string {
  const known = versions.get(program);
  if (known !== undefined) return known;
  const { stdout } = new Deno.Command(program, { args: ["--version"], stdin: "null", stderr: "null" })
    .outputSync();
  const version = new TextDecoder().decode(stdout).match(/\d+(\.\d+)+/)?.[0] ?? "0";
  versions.set(program, version);
  return version;
}

function isFrom([major, minor]: readonly [number, number], version: string): boolean {
  const [ofMajor, ofMinor] = version.split(".").map(Number);
  return ofMajor > major || ofMajor === major && ofMinor >= minor;
}

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

function find(name: string): string | undefined {
  return SEARCH.map((folder) => `${folder}/${name}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}
