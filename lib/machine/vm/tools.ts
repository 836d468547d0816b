/** Programs of the QEMU hypervisor on the host, and the user namespace that one of them needs. */
import { type Arch, currentArch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { isPackaged } from "../../base/home/mod.ts";
import { BOARDS } from "./command.ts";
import { AS_ROOT_OF_A_NAMESPACE } from "./hypervisor.ts";

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

/** The last one has what sbx's own package brings. */
const SEARCH = ["/usr/bin", "/usr/local/bin", "/usr/libexec", "/usr/lib/qemu", "/usr/sbin", "/usr/lib/sbx"];
/** Folder of QEMU's own virtiofsd. */
const LEGACY = "/usr/lib/qemu/";
/** Debian's packages of QEMU. */
const EMULATORS: Record<Arch, string> = { x86_64: "qemu-system-x86", arm64: "qemu-system-arm" };

/** Debian's package of this machine's QEMU. */
export const QEMU_PACKAGE = EMULATORS[currentArch()];

/** Names of the programs without which no VM runs: QEMU, the vsock device, the shared folder. */
export const TOOL_NAMES: readonly string[] = toolNames(currentArch());

function toolNames(arch: Arch): string[] {
  return [BOARDS[arch].program, "vhost-device-vsock", "virtiofsd"];
}

/**
 * Finds the host's programs, and checks that this user can run them.
 *
 * @param arch architecture of the guest
 * @throws {SbxError} `host.tools_missing`: names each missing one
 */
export function findTools(arch = currentArch()): Tools {
  const names = toolNames(arch);
  const [qemu, vsock, virtiofsd] = names.map(findProgram);
  const missing = names.filter((_, i) => ![qemu, vsock, virtiofsd][i]);
  if (!qemu && arch !== currentArch()) {
    throw new SbxError("host.tools_missing", `this machine cannot emulate ${arch}: ${names[0]} not found`, {
      hint: `apt-get install ${EMULATORS[arch]}, or leave out --arch`,
    });
  }
  if (missing.length > 0) {
    throw new SbxError("host.tools_missing", `this machine cannot run VMs: ${missing.join(", ")} not found`, {
      hint: isPackaged()
        ? "install the package's dependencies: sudo apt-get install --reinstall sbx"
        : "install the missing programs: scripts/deps.sh, or make setup",
    });
  }
  requireUserNamespace();
  const virtiofsdIsLegacy = virtiofsd!.startsWith(LEGACY);
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

/**
 * Command that prints a program's version, as its user. QEMU's own virtiofsd does nothing without root: for
 * other users it runs in a user namespace, as it does for a VM.
 */
export function versionCommand(program: string, uid = Deno.uid()): [program: string, args: string[]] {
  if (uid === 0 || !program.startsWith(LEGACY)) return [program, ["--version"]];
  return ["unshare", [...AS_ROOT_OF_A_NAMESPACE, "--", program, "--version"]];
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

/** Checks that this user can share a folder with a VM. @throws {SbxError} `host.tools_missing` */
export function requireUserNamespace(): void {
  checkUserNamespace({ uid: Deno.uid() ?? 0, find: findProgram, read });
}

function read(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

/** Path of a program in the folders where distributions install programs for machines. */
export function findProgram(name: string): string | undefined {
  return SEARCH.map((folder) => `${folder}/${name}`).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

/** Set-uid helpers of Debian's uidmap. */
const HELPERS = ["newuidmap", "newgidmap"];

/** Files of a host that name its users and their subordinate ids. */
const FILES = { users: "/etc/passwd", uids: "/etc/subuid", gids: "/etc/subgid" };

/** A check's view of the host; tests have hosts of their own. */
export interface UserHost {
  uid: number;
  find(name: string): string | undefined;
  /** text of a file; empty when it cannot be read */
  read(path: string): string;
}

/**
 * Checks that this user can share a workspace with a VM. For root there is nothing to check; the virtiofsd of
 * any other user runs in a user namespace, and needs uidmap and subordinate ids.
 *
 * @throws {SbxError} `host.tools_missing`, with the command that mends it
 */
export function checkUserNamespace({ uid, find, read }: UserHost): void {
  if (uid === 0) return;
  const missing = HELPERS.filter((name) => !find(name));
  if (missing.length > 0) {
    throw new SbxError(
      "host.tools_missing",
      `users who are not root cannot run VMs on this machine: ${missing.join(" and ")} not found`,
      { hint: "sudo apt-get install uidmap" },
    );
  }
  const name = rows(read(FILES.users)).find(([, , id]) => id === String(uid))?.[0];
  const has = (file: string) =>
    rows(read(file)).some(([owner, , count]) => [name, String(uid)].includes(owner) && Number(count) > 0);
  if (has(FILES.uids) && has(FILES.gids)) return;
  const user = name ?? String(uid);
  throw new SbxError(
    "host.tools_missing",
    `user ${user} cannot run VMs: no subordinate ids in ${FILES.uids} and ${FILES.gids}`,
    { hint: `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ${user}` },
  );
}

const rows = (text: string) => text.split("\n").map((line) => line.split(":"));
