/**
 * Questions over all sessions of a machine, beside one pass of reading the same records, in the same run: the
 * list in the order of time from both ends, a text that hardly any event has, refused ones, counts by hour,
 * and asks. Prints one JSON object; each ratio is the time of a question divided by the time of the pass.
 * EVENTS and SESSIONS choose other sizes.
 */
import { dirname, join } from "node:path";
import { newEventId } from "../../lib/event/mod.ts";
import { Ledger } from "../../lib/ledger/mod.ts";
import { readEvents } from "../../lib/ledger/read/mod.ts";
import { asksAcross, countAcross, readAcross, type RecordedSession } from "../../lib/service/mod.ts";
import { requestEvent } from "../helper/ledger.ts";
import { rounded, timed } from "../helper/statistics.ts";

const EVENTS = Number(Deno.env.get("EVENTS") ?? 1_000_000);
const SESSIONS = Number(Deno.env.get("SESSIONS") ?? 50);
/** Events of a batch of the ledger. */
const FLUSHED = 1000;
const START = Date.UTC(2026, 0, 1);
/** Sessions overlap, so that the list has several to choose from at each moment. */
const STEP_MS = 100;
/** Text of one event. */
const NEEDLE = "/the-needle";

const dir = await Deno.makeTempDir({ prefix: "sbx-bench-questions-" });
try {
  console.log(JSON.stringify(await measure()));
} finally {
  await Deno.remove(dir, { recursive: true });
}

async function record(): Promise<RecordedSession[]> {
  const each = Math.floor(EVENTS / SESSIONS);
  const sessions: RecordedSession[] = [];
  for (let at = 0; at < SESSIONS; at++) {
    const id = `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;
    const path = join(dir, id, "session.db");
    await Deno.mkdir(dirname(path), { recursive: true });
    // Five at a time.
    const begin = START + at * each * STEP_MS / 5;
    const iso = (index: number) => new Date(begin + index * STEP_MS).toISOString();
    await using ledger = await Ledger.open(path, { sessionId: id });
    for (let index = 0; index < each; index++) {
      const event = requestEvent("http.request", {
        path: at === 1 && index === 17 ? NEEDLE : `/${at}/${index}`,
      });
      Object.assign(event.common, {
        ...{ event_id: newEventId(), session_id: id, timestamp_unix_ms: begin + index * STEP_MS },
      });
      ledger.append({ event, decision: { decision: index % 100 === 0 ? "block" : "allow" } });
      if (index % FLUSHED === 0) await ledger.flush();
    }
    const terms = { name: `vm-${at}`, profile_id: "code", profile_revision: "1.0.0", ledger: path };
    sessions.push({ id, ...terms, created_at: iso(0), ended_at: iso(each) });
  }
  return sessions;
}

async function measure() {
  const sessions = await record();
  const pass = async () => {
    let events = 0;
    for (const { ledger } of sessions) {
      for (let cursor: string | undefined = "0"; cursor !== undefined;) {
        const page: Awaited<ReturnType<typeof readEvents>> = await readEvents(ledger, {
          cursor,
          limit: 1000,
        });
        events += page.events.length;
        cursor = page.next_cursor;
      }
    }
    return events;
  };
  const list = async (order: "oldest" | "newest", conditions = {}) => {
    let events = 0;
    let cursor: string | undefined;
    do {
      const page = await readAcross(sessions, conditions, { cursor, limit: 1000, order });
      events += page.events.length;
      cursor = page.next_cursor;
    } while (cursor !== undefined);
    return events;
  };
  const events = await pass();
  const found = await list("oldest", { grep: NEEDLE });
  const total = (await countAcross(sessions, {}, 3_600_000)).steps.reduce(
    (sum, step) => sum + step.events,
    0,
  );
  if (await list("newest") !== events || total !== events || found !== 1) {
    throw new Error("events are missing");
  }
  const passMs = await timed(pass);
  const ratio = async (question: () => Promise<unknown>) => rounded(await timed(question) / passMs);
  return {
    bench: "questions",
    events,
    sessions: sessions.length,
    pass_s: rounded(passMs / 1000),
    ratio_list: await ratio(() => list("oldest")),
    ratio_list_newest: await ratio(() => list("newest")),
    ratio_first_page: await ratio(() => readAcross(sessions, {}, { limit: 100, order: "newest" })),
    ratio_text: await ratio(() => list("oldest", { grep: NEEDLE })),
    ratio_denied: await ratio(() => list("oldest", { denied: true })),
    ratio_counts: await ratio(() => countAcross(sessions, {}, 3_600_000)),
    ratio_asks: await ratio(() => asksAcross(sessions, {})),
  };
}
