/** Pages of a record that come late or twice: each event is shown once, and none is left out. */
import { assertEquals } from "@std/assert";
import { Programs } from "../../../../cmd/desktop/page/vm/programs/programs.ts";
import { Timeline } from "../../../../cmd/desktop/page/vm/timeline/record.ts";
import { connection } from "../../../../cmd/desktop/store/store.ts";
import type { RecordedEvent } from "../../../../cmd/desktop/api/routes.ts";
import { eventCommon, processExec } from "../../../helper/event.ts";

// A frame of the browser.
globalThis.requestAnimationFrame = (draw) => setTimeout(draw);
globalThis.cancelAnimationFrame = clearTimeout;

interface Request {
  query: { cursor?: string; limit?: string };
  answer(page: { events: RecordedEvent[]; next_cursor?: string }): Promise<void>;
}

/** Requests in their order, answered by the test. */
function requests() {
  const made: Request[] = [];
  const pages = (_session: string, query: Request["query"]) => {
    const { promise, resolve } = Promise.withResolvers<{ events: RecordedEvent[]; next_cursor?: string }>();
    const answer: Request["answer"] = async (page) => {
      resolve(page);
      // Until the page is in its place, and drawn.
      for (let turn = 0; turn < 3; turn++) await new Promise((done) => setTimeout(done));
    };
    made.push({ query, answer });
    return promise;
  };
  return { made, pages };
}

/** Starts of programs, the newest first. */
function eventsFrom(newest: number, oldest: number): RecordedEvent[] {
  return Array.from({ length: newest - oldest + 1 }, (_, at) => ({
    schema_version: 1,
    common: eventCommon("process.exec", { event_id: `e${newest - at}`, sequence: newest - at }),
    process: { activity: processExec({ command: `echo ${newest - at}` }) },
  }));
}

Deno.test("desktop: two clicks for older programs read one page", async () => {
  const { made, pages } = requests();
  const programs = new Programs("session-1", pages);
  const first = programs.read();
  await made[0].answer({ events: eventsFrom(20, 11), next_cursor: "11" });
  await first;
  const clicks = [programs.read(), programs.read()];
  for (const { answer } of made.slice(1)) await answer({ events: eventsFrom(10, 1) });
  await Promise.all(clicks);
  const shown = programs.nodes.value!.map(({ event_id }) => event_id);
  assertEquals(shown, Array.from({ length: 20 }, (_, at) => `e${at + 1}`));
  programs.close();
});

Deno.test("desktop: a page before an outage leaves no gap behind the rows after it", async () => {
  const { made, pages } = requests();
  connection.value = "online";
  const timeline = new Timeline("session-1", { family: "", decision: "", grep: "" }, pages);
  await made[0].answer({ events: eventsFrom(1000, 801), next_cursor: "801" });
  // The rest of the first page is under way when the service goes away.
  assertEquals([made[1].query.cursor, made[1].query.limit], ["801", "800"]);
  connection.value = "offline";
  connection.value = "online";
  await made[2].answer({ events: eventsFrom(5000, 4001), next_cursor: "4001" });
  await made[1].answer({ events: eventsFrom(800, 1) });
  assertEquals(timeline.rows.value.length, 1000);
  assertEquals(timeline.rows.value.at(-1)!.sequence, 4001);
  assertEquals(timeline.hasOlder.value, true);
  timeline.close();
});
