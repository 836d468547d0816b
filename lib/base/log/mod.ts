/** Logging to standard error, which is a file for background roles (`lib/base/spawn`). */
export { isLogged, log, redactLog, say } from "./log.ts";
export { outliveRejections } from "./rejection.ts";
