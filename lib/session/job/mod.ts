/** Jobs: programs in the background of a VM, with their output on disk (docs/guides/jobs.md). */
export { endedWithVm, jobEnded, Jobs, noTerminal } from "./jobs.ts";
export { JOB_OUTPUT_BYTES, JOBS_KEPT, JOBS_RUNNING_MAX } from "./limit.ts";
export { OutputReader, type Piece } from "./output_reader.ts";
export type { JobProgram, JobRunner, OnDecided } from "./runner.ts";
export { JobId, JobRecord } from "./schema.ts";
export { jobDir, readJobs } from "./store.ts";
export { lastLines } from "./tail.ts";
