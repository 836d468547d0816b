/** Progress of long work: a bar on a terminal, plain lines elsewhere. Knows nothing of what the work is. */
export { bytes, Progress, type ProgressOutput } from "./progress.ts";
export { type ProgressSink, silent, type Stage } from "./stage.ts";
