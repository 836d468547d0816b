/** Certificate authority of one machine, for inspecting the HTTPS of guests. */
export { Ca, type Leaf } from "./ca.ts";
export { type CaFiles, caFiles, openCa, rotateCa } from "./store.ts";
