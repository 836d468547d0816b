import { SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { type Hypervisor, type MachineSpec, TEMPLATE_READY } from "../vm/mod.ts";

/** Longest boot of a template's machine, in `ms`: it runs beside the VMs of a person, and has no hurry. */
const BOOT_DEADLINE_MS = timeLimit(180_000);
/** Time for the guest to come to rest after its last word, in `ms`. */
const SETTLE_MS = 500;

/** A machine for a template: no disk for writes, no workspace. */
export type TemplateMachine = Omit<MachineSpec, "scratch" | "workspace" | "onConsole" | "onDiskFull">;

/**
 * Boots a machine until its guest waits for what belongs to a VM, and writes it down.
 *
 * @param imageDir folder that exists and is empty
 * @throws {SbxError} `template.failed`: the guest did not get that far
 */
export async function writeTemplate(
  hypervisor: Hypervisor,
  machine: TemplateMachine,
  imageDir: string,
): Promise<void> {
  const ready = Promise.withResolvers<void>();
  let said = "";
  const booting = await hypervisor.start({
    ...machine,
    onConsole: (bytes) => {
      said = (said + new TextDecoder().decode(bytes)).slice(-1024);
      if (said.includes(TEMPLATE_READY)) ready.resolve();
    },
    onDiskFull: () => {},
  });
  const failed = (how: string) =>
    new SbxError("template.failed", `the machine of a template ${how}: ${said.trim()}`);
  try {
    await Promise.race([
      ready.promise,
      booting.exited.then(() => {
        throw failed("ended");
      }),
      rejectAfter(BOOT_DEADLINE_MS, () => failed("was not ready in time")),
    ]);
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    await booting.snapshot({ dir: imageDir }).catch((cause) => {
      throw new SbxError("template.failed", `the machine of a template was not written: ${cause.message}`, {
        cause,
      });
    });
  } finally {
    await booting.kill();
  }
}
