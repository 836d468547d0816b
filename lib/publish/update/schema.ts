/** Shapes of updates, for the HTTP API. */
export { UpdateCheck, UpdateStatus } from "./status.ts";
