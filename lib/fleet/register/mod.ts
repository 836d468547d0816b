/** The register of a home's sessions: numbered without holes, chained and signed. */
export { checkEntries, Entry, entryHash, openEntry, type Removal } from "./entry.ts";
export { readRegister, Register, registerPath } from "./register.ts";
