/** The certificate authority of one machine, with which HTTPS of guests is looked into. */
export { Ca, type Leaf } from "./ca.ts";
export { type CaFiles, caFiles, openCa, rotateCa } from "./store.ts";
