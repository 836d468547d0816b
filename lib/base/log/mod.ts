/** Logging to standard error, which is a file for background roles (`lib/base/spawn`). */
export { isLogged, log, outliveRejections, redactLog, say } from "./log.ts";
