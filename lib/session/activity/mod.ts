/**
 * A guest's reports of its programs, as events of its session (docs/design/contracts/07-guest-wire.md §7,
 * "Activity").
 */
export type { ActivityLink } from "./record.ts";
export { ActivityRecord } from "./record.ts";
export { rulesIgnore } from "./looks.ts";
