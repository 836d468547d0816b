/** Text for a person's terminal, without anything in it that a guest could use to rewrite the screen. */
export { formatJson, plain } from "./plain.ts";
export { brief, note, print, printJson } from "./print.ts";
