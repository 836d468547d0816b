import { startThreadAhead } from "../ledger/mod.ts";

/** Loads the code of a session's enforcement and programs, and starts the thread of its ledger, before there is a session. */
export async function loadAhead(): Promise<void> {
  startThreadAhead();
  await Promise.all([import("./enforcement.ts"), import("./exec.ts"), import("./network.ts")]);
}
