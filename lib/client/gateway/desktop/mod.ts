/** The desktop page and its sign-in (docs/design/contracts/02-http.md §2, "Desktop"). */
export { DESKTOP_CODES, DESKTOP_PATH, DESKTOP_SESSION, DesktopGate, isDesktopPath } from "./gate.ts";
export { desktopFolder, DesktopPage } from "./page.ts";
export { GatewayRun } from "./run.ts";
export { Sessions } from "./sessions.ts";
