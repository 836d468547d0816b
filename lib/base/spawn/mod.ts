/** Starts this program again in another role, and finds the programs installed beside it. */
export { ROLE_PROGRAMS, selfCommand, siblingProgram } from "./self.ts";
export { replaceArgument } from "./argument.ts";
export { outputOf } from "./output.ts";
export { type Detached, homeVariables, machineTrust, spawnDetached } from "./detached.ts";
