/** A held call: its question to the host, and the effect of the answer. */
import type { ActivityFrame } from "../../../lib/machine/guest/wire/mod.ts";

/** A call that waits for its permission. */
export type Permission = Extract<ActivityFrame, { t: "Permission" }>;
type Distributed<T> = T extends unknown ? Omit<T, "t" | "id"> : never;

/** Question to the host, and the effect of its answer here. */
export interface Held {
  frame: Distributed<Permission>;
  settle(isAllowed: boolean, always: boolean): unknown;
}
