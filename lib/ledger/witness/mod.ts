/**
 * Heads of records that another process than their writer has witnessed
 * (docs/design/contracts/12-ledger.md §12, "Witness"). Loads no database.
 */
export { type Break, findBreak, findContradiction } from "./compare.ts";
export { readWitness, readWitnessSync, witnessFolder, witnessOfFile, witnessPath } from "./file.ts";
export { Heads, LedgerWitness, WitnessProblem } from "./schema.ts";
