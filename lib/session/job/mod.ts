/** Jobs: programs in the background of a VM, with their output on disk (docs/guides/jobs.md). */
export { endedWithVm, jobEnded, Jobs, noTerminal } from "./jobs.ts";
export { JOB_OUTPUT_BYTES, JOBS_KEPT, JOBS_RUNNING_MAX } from "./output.ts";
export { OutputReader, type Piece } from "./output.ts";
export {
  Job,
  jobDir,
  type JobProgram,
  type JobRunner,
  type OnDecided,
  readJobs,
  type RunEnd,
} from "./job.ts";
export { JobId, JobRecord, ServiceState, ServiceStatus } from "./schema.ts";
export { lastLines } from "./output.ts";
