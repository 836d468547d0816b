/**
 * The debug report (docs/design/contracts/11-debug-report.md §11), and the redaction that it shares with
 * bundles.
 */
export { debugReport, LOG_NAMES } from "./report.ts";
export { type MachineRedactor, machineRedactor } from "./redaction.ts";
export { LOG_TAIL, logTail } from "./probe.ts";
export { type LiveState, stateFromDisk } from "./state.ts";
