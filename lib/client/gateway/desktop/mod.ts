/** The desktop page and its sign-in (docs/design/contracts/02-http.md §2, "Desktop"). */
export {
  DESKTOP_CODES,
  DESKTOP_PATH,
  DESKTOP_SESSION,
  DesktopGate,
  isDesktopPath,
  Sessions,
} from "./gate.ts";
export { desktopFolder, DesktopPage, GatewayRun } from "./page.ts";
