/** Compiler of packs: Sigma → IR, with its reports. Loads zod, js-yaml and BLAKE3. */
export * from "./compile.ts";
export * from "./portability.ts";
export * from "../problem.ts";
