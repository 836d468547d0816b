import type { Caller } from "../../lib/session/ipc/mod.ts";
import type { Session } from "../../lib/session/mod.ts";

/** Most events that wait for a slow watcher; further ones are dropped, and stay in the ledger. */
const BACKLOG = 1000;

/** Streams the news of the session to the service until that goes away. */
export async function serveWatch(session: Session, caller: Caller): Promise<void> {
  let sent: Promise<void> = caller.reply({ t: "Info", info: session.info });
  let waiting = 0;
  const stop = session.watch((what) => {
    if (waiting >= BACKLOG) return;
    waiting++;
    const reply = "state" in what
      ? { t: "Info" as const, info: what }
      : { t: "Notice" as const, type: what.type, payload: { ...what.payload } };
    sent = sent.then(() => caller.reply(reply)).catch(() => {}).finally(() => waiting--);
  });
  await Promise.race([caller.input(), session.ended]);
  stop();
  await sent;
}
