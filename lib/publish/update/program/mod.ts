/**
 * Updates of the program itself, where no package manager owns it (docs/guides/updates.md, "The program").
 */
export { extractProgram, linkTarget } from "./deb.ts";
export { installProgram, type ProgramChange, restoreProgram } from "./install.ts";
export type { MachinePlaces } from "./revocations.ts";
export { programPath, requireUnowned } from "./place.ts";
