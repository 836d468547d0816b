/** Random rules and events over few hosts, paths and methods, so that rules match often. */
import type { Event } from "../../lib/event/mod.ts";
import { completeEvent } from "../../lib/policy/author/mod.ts";
import type { Rule } from "../../lib/policy/mod.ts";
import type { Random } from "./random.ts";

const HOSTS = ["a.example", "api.a.example", "b.example", "evil.test", "10.0.0.1"];
const PATHS = ["/", "/v1/items", "/admin/users", "/v1/admin"];
const METHODS = ["GET", "POST", "DELETE"];

/** A match of a rule, at most four levels deep. */
export function randomMatch(random: Random, depth = 0): string {
  const quoted = (from: readonly string[]) => JSON.stringify(random.pick(from));
  const inner = () => randomMatch(random, depth + 1);
  switch (random.below(depth > 2 ? 12 : 16)) {
    case 0:
    case 1:
      return `http.request.host == ${quoted(HOSTS)}`;
    case 2:
      return `http.request.method in [${quoted(METHODS)}, ${quoted(METHODS)}]`;
    case 3:
      return `http.request.host.endsWith(${quoted([".example", "a.example", "test"])})`;
    case 4:
      return `http.request.path.startsWith(${quoted(["/v1", "/", "/admin"])})`;
    case 5:
      return `http.request.path.contains(${quoted(["admin", "items", "/v1/"])})`;
    case 6:
      return `http.request.path.matches(${
        quoted(["^/v1/(items|admin)$", "admin", "^/[a-z]+/users$", "(?i)ADMIN", "x*items"])
      })`;
    case 7:
      return `in_domain(http.request.host, ${quoted(["example", "a.example", "test"])})`;
    case 8:
      return `http.request.port ${random.pick(["==", "!=", "<", ">="])} ${random.pick([80, 443])}`;
    case 9:
      return `http.request.headers["x-a"].exists(v, v == ${quoted(["1", "2"])})`;
    case 10:
      return `has(http.request.${random.pick(["query", "host", "body"])})`;
    case 11:
      return `dns.request.qname == ${quoted(HOSTS)}`;
    case 12:
      return `(${inner()} && ${inner()})`;
    case 13:
      return `(${inner()} || ${inner()})`;
    case 14:
      return `!(${inner()})`;
    default:
      return `(${inner()} ? ${inner()} : ${inner()})`;
  }
}

/** A rule of a layer, with a priority that the layer may use. */
export function randomRule(random: Random, id: number, layer: "corp" | "profile"): Rule {
  const action = random.pick(["allow", "ask", "block", "rewrite"] as const);
  return {
    id: `r${id}`,
    layer,
    name: `r${id}`,
    action,
    match: randomMatch(random),
    enabled: random.below(10) > 0,
    priority: layer === "corp" ? -10 - random.below(3) : 10 + random.below(3),
    ...(random.below(4) === 0 && { detection_level: "low" as const }),
    ...(action === "rewrite" && {
      rewrite: [random.pick([
        { op: "set" as const, path: "http.request.host", value: random.pick(HOSTS) },
        { op: "set" as const, path: "http.request.method", value: random.pick(METHODS) },
        { op: "strip_header" as const, path: "x-a" },
        { op: "replace" as const, path: "http.request.path", pattern: "admin", value: "items" },
      ])],
    }),
  };
}

/** An HTTP request, mostly complete, or a DNS query. */
export function randomEvent(random: Random): Event {
  if (random.below(5) === 0) {
    return completeEvent({
      schema_version: 1,
      common: { event_type: "dns.query" },
      dns: { request: { qname: random.pick(HOSTS) } },
    });
  }
  const request: Record<string, unknown> = {
    method: random.pick(METHODS),
    scheme: "https",
    host: random.pick(HOSTS),
    port: random.pick([80, 443]),
    path: random.pick(PATHS),
    query: "",
    headers: random.below(2) ? { "x-a": [random.pick(["1", "2"])] } : {},
  };
  delete request[random.pick(["host", "path", "query", "port", "nothing"])];
  return completeEvent({
    schema_version: 1,
    common: { event_type: "http.request" },
    http: { request } as Event["http"],
  });
}
