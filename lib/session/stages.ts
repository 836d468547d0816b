import type { MachineInfo } from "./ipc/mod.ts";

export type Stage = MachineInfo["boot_stages"][number];

/** Stages of one boot. */
export class Stages {
  readonly all: Stage[] = [];
  readonly #began = performance.now();

  /** Notes the end of a stage. @returns its time, in `ms` since the boot began */
  note(name: string): number {
    const ms = performance.now() - this.#began;
    this.all.push({ name, ms });
    return ms;
  }
}
