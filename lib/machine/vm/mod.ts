/** Virtual machines: one interface and its hypervisors. */
export {
  type AcceleratorChoice,
  chooseAccelerator,
  knownAccelerator,
  probeAccelerator,
} from "./accelerator.ts";
export { bareArguments, PORT_ADDRESS, TEMPLATE_READY } from "./command.ts";
export { deathIn, FLOOR_REACHED, FLOOR_READY } from "./console.ts";
export {
  type Accelerator,
  type Features,
  type Hypervisor,
  type ImageIdentity,
  type Machine,
  type MachineExit,
  type MachineImage,
  type MachineLimits,
  type MachineSpec,
  type TakenCopy,
  vsockPath,
} from "./hypervisor.ts";
export { hostHypervisor, libraryPath } from "./host.ts";
export { enlarge, isEnlarged, OLD_SCRATCH_OPTIONS, SCRATCH_OPTIONS } from "./scratch.ts";
export { tryConfinement } from "./launcher.ts";
export { Qemu } from "./qemu.ts";
export {
  findProgram,
  findTools,
  lackOfSaveState,
  QEMU_PACKAGE,
  requireUserNamespace,
  TOOL_NAMES,
  versionCommand,
} from "./tools.ts";
