import type { Caller } from "../../lib/ipc/mod.ts";
import type { Runner } from "../../lib/session/mod.ts";

/** Events that wait for a slow watcher; what comes beyond them is dropped: the ledger has it all. */
const BACKLOG = 1000;

/** Tells the service what happens here until it goes away. */
export async function serveWatch(runner: Runner, caller: Caller): Promise<void> {
  let sent: Promise<void> = caller.reply({ t: "Info", info: runner.info });
  let waiting = 0;
  const stop = runner.watch((what) => {
    if (waiting >= BACKLOG) return;
    waiting++;
    const reply = "state" in what
      ? { t: "Info" as const, info: what }
      : { t: "Notice" as const, type: what.type, payload: { ...what.payload } };
    sent = sent.then(() => caller.reply(reply)).catch(() => {}).finally(() => waiting--);
  });
  await Promise.race([caller.input(), runner.ended]);
  stop();
  await sent;
}
