/** Limits of jobs (docs/design/contracts/14-limits.md §14). */

/** Most `bytes` of a job's output on disk; the oldest are dropped. */
export const JOB_OUTPUT_BYTES = 8 * 1024 * 1024;
/** Most jobs of a VM that wait or run at once: half of the programs that a guest runs for its host. */
export const JOBS_RUNNING_MAX = 64;
/** Ended jobs of a VM that are kept; the oldest go first. */
export const JOBS_KEPT = 50;
