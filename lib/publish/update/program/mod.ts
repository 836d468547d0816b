/**
 * Updates of the program itself, where no package manager owns it (docs/guides/updates.md, "The program").
 */
export { extractProgram, linkTarget } from "./place.ts";
export { installProgram, type ProgramChange, restoreProgram } from "./install.ts";
export type { MachinePlaces } from "./install.ts";
export { programPath, requireUnowned } from "./place.ts";
