/** Limits of a VM and of its programs: processes, files, processor time, rates of disk and network */
export { CpuShare, limitCpu } from "./cpu.ts";
export { DiskRate, type DiskUse, watchDisk } from "./disk.ts";
export { narrowLimits } from "./narrow.ts";
export { type LimitedProgram, limitedProgram, reachedLimits } from "./program.ts";
export { Rate } from "./rate.ts";
export * from "./schema.ts";
