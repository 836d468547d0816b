/** Runs a file server whose names of files are decided on. */
import { listenToCalls } from "../../../ffi/libc/notify.ts";
import type { LiveShare } from "./schema.ts";

/**
 * Runs a program that serves a folder to a guest, until it ends. Where its calls cannot be decided on, it
 * does not start; and it ends with the thread that decides.
 *
 * @param argv the program, which is bound to this process
 * @returns its exit code
 */
export async function serveLive(share: LiveShare, [program, ...args]: string[]): Promise<number> {
  const worker = new Worker(import.meta.resolve("./worker.ts"), { type: "module", name: "live" });
  const failed = new Promise<never>((_, reject) => {
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      reject(new Error(event.message));
    });
  });
  const ready = new Promise((resolve) => worker.addEventListener("message", resolve, { once: true }));
  worker.postMessage(share);
  await Promise.race([ready, failed]);
  // From here on this thread is filtered too.
  worker.postMessage(listenToCalls());
  const child = new Deno.Command("setpriv", {
    args: ["--pdeathsig", "KILL", "--", program, ...args],
    stdin: "null",
  }).spawn();
  return (await Promise.race([child.status, failed])).code;
}
