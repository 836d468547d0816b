/** Starting the service at login: a file where this system looks for what a person's session starts (docs/contracts.md §3). */
export { applyAutostart, type AutostartPlace, autostartPlace } from "./apply.ts";
