/**
 * A host for templates without QEMU: its machines are ready at once, and are written down as two small files.
 */
import { join } from "node:path";
import { type Hypervisor, type Machine, type MachineSpec, TEMPLATE_READY } from "../../lib/machine/vm/mod.ts";

export class TemplateHost {
  identityNow = { hypervisor: "qemu 1", processor: "p", machine: "m" };
  /** machines that were started, and of those the ones that still run */
  started = 0;
  running = 0;
  /** `bytes` of a machine's memory */
  ramBytes = 4096;
  /** why it can make none */
  lack: string | undefined;
  /** called before a machine is written down */
  onSnapshot: () => void | Promise<void> = () => {};

  /** This host as a {@linkcode Hypervisor} that only makes templates. */
  get hypervisor(): Hypervisor {
    return {
      lackOf: (feature: string) => feature === "templates" ? this.lack : undefined,
      identity: () => Promise.resolve(this.identityNow),
      start: (spec: MachineSpec) => Promise.resolve(this.#start(spec)),
    } as Partial<Hypervisor> as Hypervisor;
  }

  #start({ onConsole }: MachineSpec): Machine {
    this.started++;
    this.running++;
    const exit = Promise.withResolvers<{ code: number; signal: string | null }>();
    queueMicrotask(() => onConsole(new TextEncoder().encode(TEMPLATE_READY)));
    return {
      exited: exit.promise,
      snapshot: async ({ dir }: { dir: string }) => {
        await this.onSnapshot();
        await Deno.writeFile(join(dir, "ram"), new Uint8Array(this.ramBytes));
        await Deno.writeTextFile(join(dir, "state"), "devices");
      },
      kill: () => {
        this.running--;
        exit.resolve({ code: 0, signal: "SIGKILL" });
        return Promise.resolve();
      },
    } as Partial<Machine> as Machine;
  }
}
