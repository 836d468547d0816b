/** Text for a person's terminal, without anything in it that a guest could use to rewrite the screen. */
export { brief, formatJson, note, plain, print, printJson } from "./print.ts";
