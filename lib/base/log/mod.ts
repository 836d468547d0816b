/** Logging to standard error, which is a file for background roles (`lib/base/spawn`). */
export { log, say } from "./log.ts";
export { outliveRejections } from "./rejection.ts";
