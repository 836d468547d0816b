/** Certificate authority of one machine, for inspecting the HTTPS of guests. */
export { Ca, caFiles, openCa, rotateCa } from "./ca.ts";
export type { CaFiles, Leaf } from "./sign.ts";
