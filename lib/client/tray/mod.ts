/** The icon in a Linux desktop's tray (docs/guides/desktop.md, "Tray"). */
export { follow } from "./follow.ts";
export { Tray } from "./tray.ts";
