/** What a role says on its standard error, which for those that run in the background is a file (`lib/base/spawn`). */
export { log, say } from "./log.ts";
export { outliveRejections } from "./rejection.ts";
