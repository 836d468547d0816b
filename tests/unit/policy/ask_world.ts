/** An ask rule, events that it is about, and their decisions. */
import type { Event } from "../../../lib/event/mod.ts";
import { completeEvent } from "../../../lib/policy/author/fixture.ts";
import type { AskQueue } from "../../../lib/policy/ask/queue.ts";
import { compilePolicy, type Decision, type Rule } from "../../../lib/policy/mod.ts";

export const asking = (layer: "corp" | "profile"): Rule => ({
  id: "posts",
  layer,
  name: "posts",
  action: "ask",
  match: `http.request.method == "POST"`,
  enabled: true,
  priority: layer === "corp" ? -10 : 10,
  reason: "someone looks first",
});

let number = 0;
export function post(host = "example.com"): Event {
  const event_id = (++number).toString(16).padStart(12, "0");
  return completeEvent({
    schema_version: 1,
    common: { event_type: "http.request", event_id, session_id: "s" },
    http: {
      request: { method: "POST", scheme: "https", host, port: 443, path: "/", url: `https://${host}/` },
    },
  });
}

export async function ask(
  queue: AskQueue,
  event: Event,
  layer: "corp" | "profile" = "profile",
): Promise<Decision["decision"]> {
  const { decision } = await queue.ask(event, compilePolicy([asking(layer)]).evaluate(event).decision);
  return decision;
}
