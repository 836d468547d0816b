/** Questions that a run ended with, from the service's answers over a real socket. */
import { assertEquals } from "@std/assert";
import { formatUnanswered, unansweredOf } from "../../../cmd/sbx/start/unanswered.ts";
import { Client } from "../../../lib/client/mod.ts";

const WAITS = {
  ...{ ask_id: "ask-1-2", event_id: "000000000001", session_id: "s", event_type: "http.request" },
  ...{
    subject: "GET https://a.example/\x1b[31m",
    rule_id: "rest",
    covers_host: "every request to a.example",
  },
};
const WHYS: Record<string, unknown> = {
  "000000000002": { decision: { rule: { id: "rest" }, answered: { status: "expired" } } },
  "000000000003": { decision: { rule: { id: "rest" }, answered: { status: "denied" } } },
  "000000000004": { decision: { rule: { id: "no" } } },
};

async function served(asks: unknown[], ids: string[]) {
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, (request) => {
    const { pathname } = new URL(request.url);
    if (pathname.endsWith("/asks")) return Response.json({ asks });
    const [, id] = /\/sessions\/s\/events\/([0-9a-f]{12})\/why$/.exec(pathname) ?? [];
    return id in WHYS
      ? Response.json({ event: {}, findings: [], ...WHYS[id] as object })
      : new Response("", { status: 404 });
  });
  using http = Deno.createHttpClient({});
  try {
    const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
    const refused = ids.map((event_id) => ({ event_id, subject: `http.request ${event_id}` }));
    return await unansweredOf(client, { name: "dev", session: "s" }, refused);
  } finally {
    await server.shutdown();
  }
}

Deno.test("a run ends with the questions that wait, and with events that no one answered for", async () => {
  const other = { ...WAITS, ask_id: "ask-9-9", session_id: "other" };
  const found = await served([WAITS, other], Object.keys(WHYS));
  assertEquals(found.map(({ event_id, commands }) => [event_id, ...commands]), [
    ["000000000001", "sbx allow ask-1-2 --host", "sbx deny ask-1-2"],
    ["000000000002", "sbx why 000000000002 dev"],
  ]);
  const lines = formatUnanswered(found);
  assertEquals(lines.map((line) => line.trim().split(":")[0]), [
    "1 question still waiting for an answer",
    "http.request GET https",
    "1 event refused because no one answered in time",
    "http.request 000000000002",
    "sbx asks --follow, in another terminal, shows such questions while it runs",
  ]);
  assertEquals(lines.some((line) => line.includes("\x1b")), false);
});

Deno.test("a run whose questions were all answered ends without a list", async () => {
  assertEquals(formatUnanswered(await served([], ["000000000003", "000000000004"])), []);
});
