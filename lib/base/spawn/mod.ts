/** Starts this program again in another role, and finds the programs installed beside it. */
export {
  type Detached,
  homeVariables,
  machineTrust,
  outputOf,
  ROLE_PROGRAMS,
  selfCommand,
  siblingProgram,
  spawnDetached,
} from "./self.ts";
export { replaceArgument } from "./argument.ts";
export { limitedOutput, type OutputLimits } from "./limited.ts";
