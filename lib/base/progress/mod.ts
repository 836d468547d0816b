/** Progress of long-running work: a bar on a terminal, plain lines elsewhere. */
export {
  formatBytes,
  Progress,
  type ProgressOutput,
  type ProgressSink,
  silent,
  type Stage,
} from "./progress.ts";
