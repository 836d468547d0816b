/** Progress of long-running work: a bar on a terminal, plain lines elsewhere. */
export { formatBytes, Progress, type ProgressOutput } from "./progress.ts";
export { type ProgressSink, silent, type Stage } from "./stage.ts";
