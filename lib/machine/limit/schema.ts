/**
 * Limits of a VM and of its programs, as `[vm.limits]` of a profile and requests give them
 * (docs/guides/limits.md).
 */
import { z } from "zod";

/** Largest values (docs/design/contracts/14-limits.md §14). */
const PROCESSES_MAX = 100_000;
const OPEN_FILES = { min: 16, max: 1_048_576 };
const FILE_MB_MAX = 1_048_576;
const CPU_PERCENT = { min: 5, max: 6400 };
const RATE_MB_MAX = 100_000;

/** Limits of one program and of the programs that it starts. */
export const ProgramLimits = z.strictObject({
  processes: z.int().min(1).max(PROCESSES_MAX).optional().describe(
    "processes and threads at the same time",
  ),
  open_files: z.int().min(OPEN_FILES.min).max(OPEN_FILES.max).optional().describe(
    "open files of each process",
  ),
  file_mb: z.int().min(1).max(FILE_MB_MAX).optional().describe("largest file that is written, in MiB"),
});
export type ProgramLimits = z.output<typeof ProgramLimits>;

/** Limits of a VM; the limits of programs hold for each program that is started from the host. */
export const VmLimits = z.strictObject({
  ...ProgramLimits.shape,
  cpu_percent: z.int().min(CPU_PERCENT.min).max(CPU_PERCENT.max).optional().describe(
    "processor time, in percent of one processor",
  ),
  disk_mb_per_s: z.int().min(1).max(RATE_MB_MAX).optional().describe(
    "rate of its disk, reads and writes together, in MiB/s",
  ),
  network_mb_per_s: z.int().min(1).max(RATE_MB_MAX).optional().describe(
    "rate of its network, both directions together, in MiB/s",
  ),
});
export type VmLimits = z.output<typeof VmLimits>;

/** A limit of programs that a program has reached. */
export const ReachedLimit = z.enum(["processes", "file_mb"]);
export type ReachedLimit = z.infer<typeof ReachedLimit>;
