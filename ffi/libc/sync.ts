/** Data that the kernel has not written yet. Linux only. */
import { loadFunctions } from "./load.ts";

/** Writes all data of all file systems out. */
export async function writeDataOut(): Promise<void> {
  await loadFunctions({ sync: { parameters: [], result: "void", nonblocking: true } }).sync();
}
