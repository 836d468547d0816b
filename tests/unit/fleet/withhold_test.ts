/** Bodies stay on the machine, whatever the shape of the event, unless corp lets them go. */
import { assert, assertEquals } from "@std/assert";
import { canonicalJson } from "../../../lib/base/json/mod.ts";
import { type BodyGrant, openSegment, verifyRows } from "../../../lib/fleet/segment/mod.ts";
import type { SegmentTarget } from "../../../lib/fleet/ship/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { SESSION_A, TestFleet } from "../../helper/fleet.ts";

const SECRET = "contents that stay";
const body = { state: "text", text: SECRET, content_type: "text/plain", size: 18, truncated: false };

/** Everything that a segment has of these events, unpacked. */
async function sent(grants?: BodyGrant[]): Promise<{ text: string; whole: boolean[] }> {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/session.db`;
  {
    await using ledger = await Ledger.open(path, { sessionId: SESSION_A });
    const events = [
      requestEvent("http.request", { body }),
      requestEvent("http.request"),
      requestEvent("mcp.tool_call", { arguments: { text: SECRET } }),
      requestEvent("model.call", { body }),
      // A text that looks like an empty body must hide nothing.
      requestEvent("http.request", {
        path: '/"body":{"state":"missing","truncated":false}',
        body: { ...body, text: `"body":{"state":"missing","truncated":false} ${SECRET}` },
      }),
      requestEvent("http.request"),
    ];
    for (const event of events) {
      event.common.session_id = SESSION_A;
      ledger.append({ event: event as Event });
    }
    const [http, , mcp, model, , socket] = events.map(({ common }) => common.event_id);
    ledger.end({ event_id: http, response: { status: 200, headers: {}, body } });
    ledger.end({ event_id: mcp, response: { is_error: false, content: [{ type: "text", text: SECRET }] } });
    ledger.end({
      event_id: model,
      response: { status: 200, tool_calls: [{ name: "x", arguments: SECRET }] },
    });
    const message = { from: "guest", at_ms: 1, size: 18, state: "text", text: SECRET, truncated: false };
    const none = { state: "missing", truncated: false };
    ledger.end({ event_id: socket, response: { status: 101, headers: {}, body: none, messages: [message] } });
    // An end whose event is unknown.
    ledger.end({ event_id: "0123456789ab", response: { status: 200, body } });
  }
  const segments: Uint8Array[] = [];
  const target: SegmentTarget = {
    name: "memory",
    send: (segment) => Promise.resolve((segments.push(segment), { kept: true as const })),
    report: () => Promise.resolve(),
  };
  await fleet.shipper(key, { target, ...(grants && { grants }) }).ship(SESSION_A, path);
  const lines = verifyRows(await openSegment(segments[0], () => key.publicKey));
  return {
    text: lines.map((line) => line.kind === "erased" ? "" : line.text).join("\n"),
    whole: lines.filter((line) => line.kind === "event").map(({ whole }) => whole),
  };
}

Deno.test("no contents of requests and responses leave, and the rows verify", async () => {
  const { text, whole } = await sent();
  assert(!text.includes(SECRET), text);
  assertEquals(whole, [false, true, false, false, false, true]);
  assert(text.includes('"redaction_reason":"fleet.withheld"'));
  assert(text.includes('"size":18'), "how large a body was may be known");
});

Deno.test("a grant covers its family and hosts, and nothing else", async () => {
  const { text, whole } = await sent([{ family: "http", hosts: ["*.example.com"] }]);
  assertEquals(whole, [true, true, false, false, true, true]);
  assert(text.includes(SECRET));
  assert(!text.includes(canonicalJson({ arguments: { text: SECRET } }).slice(1, -1)));
  const { whole: other } = await sent([{ family: "http", hosts: ["example.org", "ample.com"] }]);
  assertEquals(other, [false, true, false, false, false, true]);
});
