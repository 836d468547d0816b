import { log } from "./log.ts";

/**
 * Logs unhandled promise rejections instead of ending the process, for a role that serves many clients: a failure in
 * one task must not end the others.
 */
export function outliveRejections(): void {
  globalThis.addEventListener("unhandledrejection", (event) => {
    event.preventDefault();
    log.error("unhandled:", event.reason);
  });
}
