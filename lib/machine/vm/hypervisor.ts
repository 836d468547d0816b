/** Interface of hypervisors, independent of the program or framework behind it. */
import type { Arch } from "../../base/arch/mod.ts";
import { selfCommand } from "../../base/spawn/mod.ts";
import type { LiveShare } from "../live/schema.ts";

/**
 * Abilities of a hypervisor; callers check this record, never the platform. An ability of only some
 * hypervisors is absent elsewhere: `rosetta` runs programs of x86_64 in guests of arm64, `nested` gives
 * guests the processor's virtualization.
 */
export interface Features extends Record<string, boolean> {
  /** can freeze and resume the virtual processors */
  pause: boolean;
  /** can save a running machine to disk and restore it */
  save_state: boolean;
  /** can share a folder of the host with the guest */
  shared_folder: boolean;
  /** runs without virtualization support of the processor */
  emulation: boolean;
}

/** Limits of a machine that runs, which its host keeps (docs/guides/limits.md). */
export interface MachineLimits {
  /** percent of one processor */
  cpuPercent?: number;
  /** reads and writes of its disk together */
  diskBytesPerSecond?: number;
}

/** Execution of the guest's processor instructions. */
export type Accelerator = "kvm" | "tcg" | "vz";

/** Specification of one machine. Paths are on the host. */
export interface MachineSpec {
  /** folder for this machine's sockets; short, see `instancePaths` */
  dir: string;
  arch: Arch;
  cpus: number;
  /** MiB */
  ramMb: number;
  kernel: string;
  initrd: string;
  rootfs: string;
  /** read-only image of the guest programs of sbx; without one the root file system has them */
  layer?: string;
  /** ext4 image for the guest's writes; without one they stay in its memory */
  scratch?: string;
  /**
   * read-only image that was its root file system before, once after it got
   * another; only with a layer and a disk
   */
  before?: string;
  /**
   * folder shared with the guest; a machine without one has no vsock either, and is there to become an image
   */
  workspace?: string;
  /** a folder of the host in the workspace */
  live?: LiveMount;
  accelerator: Accelerator;
  /** of a hypervisor that has these features; the last one is the guest's own (lib/machine/guest/link.ts) */
  abilities?: readonly ("rosetta" | "nested" | "user_namespaces")[];
  /** folder for the logs of the machine's programs */
  logs: string;
  /** receives output of the guest's serial console */
  onConsole(bytes: Uint8Array): void;
  /**
   * called when the machine stops because the host has no space for the guest's disk; `resume` tries again
   */
  onDiskFull(): void;
}

/** Exit status of a machine. */
export interface MachineExit {
  code: number;
  signal: string | null;
}

/** Folder with a saved machine's memory and devices. Only a hypervisor reads its content. */
export interface MachineImage {
  dir: string;
}

/** A running machine. */
export interface Machine {
  /** settles when the machine has ended for any reason */
  readonly exited: Promise<MachineExit>;
  /** Processor time that its guest has used, in `ms`. */
  cpuMs(): Promise<number>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /**
   * Stops the machine and writes it down, into a folder that exists and is empty. Afterwards it is killed, or
   * goes on with {@linkcode rejoin}.
   *
   * @param eject asks the guest to take out its vsock, of a machine that has one
   */
  snapshot(image: MachineImage, eject?: () => Promise<void>): Promise<void>;
  /**
   * Saves a machine that keeps running, without its vsock: {@linkcode rejoin} gives it a new one, also after
   * a failure. It is paused while its devices and its memory are copied.
   *
   * @param whileStill copies what else belongs to that moment
   */
  copy(image: MachineImage, eject: () => Promise<void>, whileStill: () => Promise<void>): Promise<TakenCopy>;
  /** Most `bytes` of its image, if it were written down now. */
  imageBytes(): Promise<number>;
  /** Resumes a machine that was stopped to be saved, with a new vsock: its connections are gone. */
  rejoin(): Promise<void>;
  /** Writes a line to the guest's serial console. */
  tell(line: string): Promise<void>;
  /**
   * Limits it from now on, on a hypervisor with the feature `rate_limits`.
   *
   * @param onReached called whenever it has used up its share of the processors, and once when its disk is
   * held back
   */
  limit(limits: MachineLimits, onReached: (limit: keyof MachineLimits) => void): Promise<void>;
  /** kills the machine and its helper programs */
  kill(): Promise<void>;
}

/** A copy of a machine, whose memory is not on disk yet. */
export interface TakenCopy {
  /** time that the machine stood still, in `ms` */
  stillMs: number;
  /** writes the rest of the image */
  write(): Promise<void>;
}

/** Everything that a machine's memory depends on besides its boot files, as comparable words. */
export type ImageIdentity = Readonly<Record<"hypervisor" | "processor" | "machine", string>>;

/** Starts machines. */
export interface Hypervisor {
  readonly name: string;
  readonly features: Features;
  /** why this host lacks a feature, and what to install for it */
  lackOf(feature: string): string | undefined;
  /** Checks that this host can run machines of an architecture. @throws {SbxError} `host.tools_missing` */
  requireHost(arch?: Arch): void;
  /** Does ahead of a start what needs no specification, for a process that starts a machine soon. */
  prepare(): void;
  /**
   * Starts a machine whose vsock is a folder of Unix sockets: a guest connection to host port P reaches
   * {@linkcode vsockPath}`(dir, P)`. The caller listens there before the start.
   */
  start(spec: MachineSpec): Promise<Machine>;
  /** The identity of images that this host writes and can start. @throws {SbxError} `host.tools_missing` */
  identity(board: Pick<MachineSpec, "arch" | "cpus" | "ramMb" | "accelerator">): Promise<ImageIdentity>;
  /**
   * Starts a machine from an image. The image's machine had the same processors, memory, root disk and
   * accelerator; its guest finds disk, folder and vsock when it looks for new devices.
   *
   * @throws {SbxError} `vm.image_failed`: the image does not fit, or is damaged
   */
  restore(spec: MachineSpec, image: MachineImage): Promise<Machine>;
}

/** Path of the Unix socket for guest connections to one vsock port of the host. */
export function vsockPath(dir: string, port: number): string {
  return `${dir}/v_${port}`;
}

/**
 * Arguments of unshare for a user who is not root: root of a user namespace with the user's
 * subordinate ids (/etc/subuid).
 */
export const AS_ROOT_OF_A_NAMESPACE = ["--map-root-user", "--map-auto", "--mount"];

/** A folder of the host for a guest. */
interface LiveMount {
  share: LiveShare;
  /** folder of the workspace in whose place it is */
  at: string;
  /** the guest hears of each change of the host, so that it may keep names and states of files */
  isWatched: boolean;
}

/**
 * Puts the folder into the workspace, where only this program and its children see it, and starts the guard
 * of the file server. A user who is not root is root of a user namespace for that.
 */
const SCRIPT = 'mount --rbind -- "$1" "$2" && shift 2 && exec setpriv --pdeathsig KILL -- "$@"';

/**
 * Arguments of unshare for a file server with a folder of the host.
 * @param first commands of the shell before the mount
 */
export function liveArguments(
  { share, at }: Omit<LiveMount, "isWatched">,
  server: string[],
  first = "",
): string[] {
  const { cmd, args } = selfCommand("live", [JSON.stringify(share), ...server]);
  return [
    ...Deno.uid() === 0 ? ["--mount"] : AS_ROOT_OF_A_NAMESPACE,
    "--",
    "/bin/sh",
    "-c",
    first + SCRIPT,
    "sh",
    share.dir,
    at,
    cmd,
    ...args,
  ];
}
