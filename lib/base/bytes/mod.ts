/** Arrays of bytes. */
export { joinBytes } from "./join.ts";
