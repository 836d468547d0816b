/** Starting this program again in another role. */
export { selfCommand } from "./self.ts";
export { type Detached, spawnDetached } from "./detached.ts";
