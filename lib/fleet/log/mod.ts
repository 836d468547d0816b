/**
 * The log of a store: its machines, erasures and exports, signed and append-only,
 * with witnesses on the machines.
 */
export { LogEntry } from "./entry.ts";
export {
  type LogAnswer,
  LogHead,
  logPaths,
  openHead,
  readLog,
  readStoreKey,
  recordHash,
  StoreLog,
} from "./log.ts";
export { isConsistent, Tree } from "./tree.ts";
export { readWitness, Witness, witnessLog, witnessPath } from "./witness.ts";
