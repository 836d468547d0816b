/**
 * Starting the service at login: a file in the system's folder of programs that a session starts
 * (docs/design/contracts/03-settings.md §3).
 */
export { applyAutostart, type AutostartPlace, autostartPlace } from "./apply.ts";
