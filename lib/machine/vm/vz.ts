/**
 * Machines of libsbxvm (ffi/SbxVM): Virtualization.framework on macOS; elsewhere a
 * library for tests that boots QEMU.
 */
import { type LibraryAbilities, type LibrarySpec, VmLibrary } from "../../../ffi/SbxVM/binding.ts";
import { currentArch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { removeIfThere } from "../../base/home/mod.ts";
import { bootParameters, guestParameters } from "./command.ts";
import type {
  Features,
  Hypervisor,
  ImageIdentity,
  Machine,
  MachineImage,
  MachineSpec,
} from "./hypervisor.ts";
import { libraryError, VzMachine } from "./vz_machine.ts";

/** Sockets that the library connects to, in a machine's folder. */
const SOCKETS = { events: "events.sock", console: "console.sock" } as const;

/**
 * Kernel parameters of a Mac's guests, for init (lib/publish/image/init.ts): their console is a
 * virtio device, the framework starts a guest again that restarts, the host has no mkfs.ext4,
 * and the vsock stays where it is.
 */
const GUEST_PARAMETERS = ["sbx_hvc=1", "sbx_poweroff=1", "sbx_blank=1", "sbx_fixed=1"];

/** Why Virtualization.framework lacks templates and live forks, and what else it lacks. */
const NO_COPIES =
  "needs machines that go on from one saved state beside each other: they would have one identity, and macOS runs one of them at a time";
const LACKS: Record<string, string> = {
  templates: NO_COPIES,
  live_fork: NO_COPIES,
  rate_limits: "needs a machine that is a process of its own; Virtualization.framework has no limits",
};

/** Hypervisor behind a library's C interface. */
export class Vz implements Hypervisor {
  readonly #path: string;
  #library: VmLibrary | undefined;
  #abilities: LibraryAbilities | undefined;

  /** @param path the library, which is loaded when it is needed */
  constructor(path: string) {
    this.#path = path;
  }

  get name(): string {
    return this.#able.hypervisor;
  }

  get features(): Features {
    const { pause, save_state, shared_folder, emulation, ...others } = this.#able.features;
    const missing = Object.fromEntries(Object.keys(LACKS).map((feature) => [feature, false]));
    return { ...others, ...missing, pause, save_state, shared_folder, emulation };
  }

  lackOf(feature: string): string | undefined {
    return LACKS[feature] ?? this.#able.lacks[feature];
  }

  /** The framework is part of the process. */
  prepare(): void {}

  requireHost(arch = currentArch()): void {
    this.#load();
    if (arch === currentArch()) return;
    throw new SbxError("vm.not_supported", `the hypervisor of this host runs ${currentArch()} alone`, {
      hint: "leave out --arch",
    });
  }

  async start(spec: MachineSpec): Promise<Machine> {
    const machine = await this.#create(spec);
    await machine.begin((handle) => handle.start(), "vm.boot_failed");
    return machine;
  }

  async restore(spec: MachineSpec, image: MachineImage): Promise<Machine> {
    const machine = await this.#create(spec);
    await machine.begin(
      (handle) => handle.restore(image.dir),
      "vm.image_failed",
      "the machine could not be started from memory",
    );
    try {
      await machine.comeBack();
      return machine;
    } catch (error) {
      await machine.kill();
      throw error;
    }
  }

  // deno-lint-ignore require-await -- errors must reject, not throw
  async identity({ cpus, ramMb }: Pick<MachineSpec, "cpus" | "ramMb">): Promise<ImageIdentity> {
    return {
      hypervisor: `${this.name}, ${Deno.build.os} ${Deno.osRelease()}`,
      processor: Deno.build.arch,
      machine: `${cpus} processors, ${ramMb} MiB`,
    };
  }

  async #create(spec: MachineSpec): Promise<VzMachine> {
    const paths = { events: `${spec.dir}/${SOCKETS.events}`, console: `${spec.dir}/${SOCKETS.console}` };
    // A machine that failed before this one leaves its sockets.
    Object.values(paths).forEach(removeIfThere);
    const [events, console] = [paths.events, paths.console].map((path) =>
      Deno.listen({ transport: "unix", path })
    );
    try {
      const handle = this.#load().create({ ...await this.#specOf(spec), ...paths });
      return new VzMachine({ handle, events, console, spec });
    } catch (error) {
      events.close();
      console.close();
      throw libraryError(error, "vm.boot_failed", "the machine could not be made");
    }
  }

  async #specOf(spec: MachineSpec): Promise<Omit<LibrarySpec, keyof typeof SOCKETS>> {
    const { arch, dir, cpus, ramMb, kernel, initrd, rootfs, layer, scratch, before, workspace, logs, live } =
      spec;
    const { rosetta, nested } = Object.fromEntries((spec.abilities ?? []).map((ability) => [ability, true]));
    this.requireHost(arch);
    if (live) {
      throw new SbxError("vm.not_supported", "this hypervisor cannot guard a folder of the host", {
        hint: "start the VM without --live",
      });
    }
    return {
      dir,
      cpus,
      memory_mb: ramMb,
      kernel,
      initrd,
      command_line: this.#commandLine(spec),
      // Their order is all that a guest knows them by (lib/publish/image/init.ts).
      disks: [
        { path: rootfs, read_only: true },
        ...layer ? [{ path: layer, read_only: true }] : [],
        ...scratch ? [{ path: scratch, read_only: false }] : [],
        ...before ? [{ path: before, read_only: true }] : [],
      ],
      ...workspace === undefined
        ? {}
        : { share: { path: workspace, tag: "workspace" }, ports: await listenedPorts(dir) },
      logs,
      ...rosetta && { rosetta },
      ...nested && { nested },
    };
  }

  #commandLine(spec: MachineSpec): string {
    const { console, features } = this.#able;
    const isEmulated = features.emulation && spec.accelerator === "tcg";
    const boot = bootParameters(spec.arch, isEmulated, console);
    const rosetta = spec.abilities?.includes("rosetta") ? ["sbx_rosetta=1"] : [];
    return [...boot, ...GUEST_PARAMETERS, ...rosetta, ...guestParameters(spec)].join(" ");
  }

  get #able(): LibraryAbilities {
    return this.#abilities ??= this.#load().abilities;
  }

  #load(): VmLibrary {
    try {
      return this.#library ??= new VmLibrary(this.#path);
    } catch (cause) {
      throw new SbxError("host.tools_missing", `${this.#path} cannot be loaded`, {
        cause,
        hint: "make dylib builds it on a Mac (docs/design/macos.md)",
      });
    }
  }
}

/** Ports of the host with a listener for this machine. */
async function listenedPorts(dir: string): Promise<number[]> {
  const ports: number[] = [];
  for await (const { name } of Deno.readDir(dir)) {
    const port = name.match(/^v_(\d+)$/)?.[1];
    if (port) ports.push(Number(port));
  }
  return ports;
}
