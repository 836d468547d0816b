/** Certificate authority of one machine, for inspecting the HTTPS of guests. */
export { Ca } from "./ca.ts";
export type { Leaf } from "./sign.ts";
export { caFiles, openCa, rotateCa } from "./store.ts";
export type { CaFiles } from "./sign.ts";
