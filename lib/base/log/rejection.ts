import { log } from "./log.ts";

/**
 * For a role that serves many: what goes wrong in a promise that nobody awaits ends that one thing, is told in the log,
 * and ends nothing else.
 */
export function outliveRejections(): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log("unhandled:", event.reason);
  });
}
