/** Certificate authority of one machine, for inspecting the HTTPS of guests. */
export { Ca } from "./ca.ts";
export type { CaFiles, Leaf } from "./sign.ts";
export { caFiles, openCa, rotateCa } from "./store.ts";
