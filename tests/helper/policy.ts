/** Rules and events to decide on. */
import type { Event } from "../../lib/event/mod.ts";
import { completeEvent } from "../../lib/policy/author/mod.ts";
import type { Action, Layer, Policy, Rule } from "../../lib/policy/mod.ts";

/** A rule with the priority of its layer. */
export function rule(
  layer: Layer,
  id: string,
  action: Action,
  match: string,
  more: Partial<Rule> = {},
): Rule {
  const priority = { corp: -10, profile: 10, default: 0 }[layer];
  return { id, layer, name: id, action, match, enabled: true, priority, ...more };
}

export function http(request: object = {}): Event {
  return completeEvent({
    schema_version: 1,
    common: { event_type: "http.request" },
    http: {
      request: {
        method: "GET",
        scheme: "https",
        host: "example.com",
        port: 443,
        path: "/",
        query: "",
        url: "https://example.com/",
        headers: {},
        ...request,
      },
    },
  });
}

/** The decision, and `layer:id` of the rule that made it. */
export function decided(policy: Policy, event: Event): [string, string] {
  const { decision } = policy.evaluate(event);
  return [decision.decision, `${decision.rule.layer}:${decision.rule.id}`];
}

/** Matches {@linkcode http} as it is. */
export const HOST = `http.request.host == "example.com"`;
