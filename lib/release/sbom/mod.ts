/**
 * Components of a program: its SPDX documents, their rules, and SPDX names of licences
 * (docs/design/contracts/10-release.md §10).
 */
export { type Component, generateSpdx, hashUuid, type SbomInput } from "./spdx.ts";
export { spdxProblems } from "./spdx.ts";
export { debianLicense } from "./license.ts";
