/**
 * The debug report (docs/design/contracts/11-debug-report.md §11), and the redaction that it shares with
 * bundles.
 */
export { type MachineRedactor, machineRedactor } from "./known.ts";
export { LOG_TAIL, logTail } from "./probe.ts";
export { debugReport, LOG_NAMES } from "./report.ts";
export { type LiveState, stateFromDisk } from "./state.ts";
