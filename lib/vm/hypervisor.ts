/** What runs a virtual machine, whichever program or framework does it. */

/** What a hypervisor can do; callers ask this record, never the platform. */
export interface Features extends Record<string, boolean> {
  /** freezes and continues the virtual processors */
  pause: boolean;
  /** writes a running machine to disk and brings it back */
  save_state: boolean;
  /** shares a folder of the host with the guest */
  shared_folder: boolean;
  /** runs where the processor offers no virtualization */
  emulation: boolean;
}

/** How the guest's processor instructions are run. */
export type Accelerator = "kvm" | "tcg";

/** One machine to start. Paths are on the host. */
export interface MachineSpec {
  /** folder for this machine's sockets; short, see `instancePaths` */
  dir: string;
  cpus: number;
  /** MiB */
  ramMb: number;
  kernel: string;
  initrd: string;
  rootfs: string;
  /** ext4 image that keeps what the guest writes; without one it is kept in its memory */
  scratch?: string;
  workspace: string;
  accelerator: Accelerator;
  /** folder for the logs of the programs that make up the machine */
  logs: string;
  /** bytes of the guest's serial console */
  onConsole(bytes: Uint8Array): void;
  /** the machine has stopped, because the host has no room for what the guest writes to its disk; `resume` tries again */
  onDiskFull(): void;
}

/** Why a machine is no longer there. */
export interface MachineExit {
  code: number;
  signal: string | null;
}

/** A machine that runs. */
export interface Machine {
  /** settles when the machine is gone, for whatever reason */
  readonly exited: Promise<MachineExit>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** ends it now and everything that belongs to it */
  kill(): Promise<void>;
}

/** One way to run machines. */
export interface Hypervisor {
  readonly name: string;
  readonly features: Features;
  /**
   * Starts a machine whose vsock is a folder of UDS paths: the guest connecting to host port P reaches
   * {@linkcode vsockPath}`(dir, P)`, on which the caller listens before it calls this.
   */
  start(spec: MachineSpec): Promise<Machine>;
}

/** UDS on which the guest's connections to one of the host's vsock ports arrive. */
export function vsockPath(dir: string, port: number): string {
  return `${dir}/v_${port}`;
}
