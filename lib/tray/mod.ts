/** The icon in a Linux desktop's tray (docs/desktop.md, "Tray"). */
export { busAddress } from "./bus.ts";
export { follow } from "./follow.ts";
export { Tray } from "./tray.ts";
