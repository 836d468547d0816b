/** Files by POSIX's calls alone, for systems without Linux's own. */
export { openBeneathBySteps } from "./beneath.ts";
export { PosixFolder, readNamesOf } from "./folder.ts";
export { Calls, DARWIN, type Platform, statOf } from "./platform.ts";
export { cloneTree } from "./clone.ts";
export { enterSandbox, SANDBOX_PROFILE } from "./sandbox.ts";
