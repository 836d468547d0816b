/** Files of a session on disk (docs/design/session-files.md): where they are, and their shapes. */
export {
  type Contract,
  detectionsOf,
  droppedOf,
  type OnFull,
  readContract,
  writeContract,
} from "./contract.ts";
export { makeSockets, pinsPath, type SessionPaths, sessionPaths, type VmPaths, vmPaths } from "./paths.ts";
export {
  bootPaths,
  ForkedFrom,
  MachineAbility,
  type MadeBy,
  madeBy,
  readRecord,
  readState,
  VmParent,
  VmRecord,
  writeRecord,
  writeState,
} from "./record.ts";
