/**
 * Starting the service at login: a file where this system looks for what a person's session starts
 * (docs/design/contracts/03-settings.md §3).
 */
export { applyAutostart, type AutostartPlace, autostartPlace } from "./apply.ts";
