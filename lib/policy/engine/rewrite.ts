/** Changes that rules make to events: typed, and on copies. */
import { catalogue, type Event, type HttpEvent, httpPathClass, pathClass, valueAt } from "../../event/mod.ts";
import { MatchError } from "./field.ts";
import { regex } from "./regex.ts";
import type { RewriteOp, Rule } from "./rule.ts";

/** A rewrite that is checked: answers the changed event, or the same one when there is nothing to change. */
export interface Rewrite {
  op: RewriteOp["op"];
  path: string;
  apply(event: Event): Event;
}

/** Fields that follow from others; they are worked out again after a rewrite. */
const DERIVED = new Set(["http.request.url", "http.request.path_class", "file.activity.path_class"]);
const HEADERS = ["http.request.headers", "http.response.headers"];
/** The map of any values: its members are rewritten by name, one argument of a tool each. */
const ARGUMENTS = "mcp.request.arguments.";

/** @throws MatchError when a rewrite names a field that it cannot change so */
export function compileRewrites({ action, rewrite = [] }: Rule): Rewrite[] {
  if (action !== "rewrite") {
    if (rewrite.length) throw new MatchError(`a rule with action "${action}" has no rewrite`);
    return [];
  }
  if (!rewrite.length) throw new MatchError('a rule with action "rewrite" needs rewrite = [...]');
  return rewrite.map(compileOp);
}

function compileOp(change: RewriteOp): Rewrite {
  switch (change.op) {
    case "strip_header":
      return stripHeader(change);
    case "set":
      return setField(change);
    case "replace":
      return replaceIn(change);
  }
}

function stripHeader({ op, path }: RewriteOp): Rewrite {
  const parent = HEADERS.find((headers) => path.startsWith(`${headers}.`)) ?? HEADERS[0];
  const name = (path.startsWith(`${parent}.`) ? path.slice(parent.length + 1) : path).toLowerCase();
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) throw new MatchError(`"${path}" is no header`);
  return {
    op,
    path: `${parent}.${name}`,
    apply(event) {
      const headers = valueAt(event, parent) as Record<string, string[]> | undefined;
      const kept = Object.entries(headers ?? {}).filter(([key]) => key.toLowerCase() !== name);
      if (!headers || kept.length === Object.keys(headers).length) return event;
      return withValue(event, parent, Object.fromEntries(kept));
    },
  };
}

function setField({ op, path, value }: RewriteOp): Rewrite {
  const { type, values } = changeable(path);
  const given = typeof value === "boolean" ? "bool" : typeof value;
  if (value === undefined) throw new MatchError(`set ${path} needs a value`);
  if (type !== "any" && given !== type) throw new MatchError(`${path} is a ${type}, the value is a ${given}`);
  if (values && !values.includes(value as string)) {
    throw new MatchError(`${path} is one of ${values.join(", ")}`);
  }
  return {
    op,
    path,
    apply: (event) =>
      valueAt(event, path) === value || !isObject(parentOf(event, path))
        ? event
        : withValue(event, path, value),
  };
}

function replaceIn({ op, path, pattern, value }: RewriteOp): Rewrite {
  const { type } = changeable(path);
  if (type !== "string" && type !== "any") throw new MatchError(`${path} is a ${type}; replace changes text`);
  if (pattern === undefined) throw new MatchError(`replace in ${path} needs a pattern`);
  if (value !== undefined && typeof value !== "string") {
    throw new MatchError(`replace in ${path} needs text as value`);
  }
  try {
    regex(pattern);
  } catch (error) {
    throw new MatchError(`bad pattern: ${(error as Error).message}`);
  }
  return {
    op,
    path,
    apply(event) {
      const text = valueAt(event, path);
      if (typeof text !== "string" || !isObject(parentOf(event, path))) return event;
      const changed = regex(pattern).matcher(text).replaceAll(value ?? "");
      return changed === text ? event : withValue(event, path, changed);
    },
  };
}

function changeable(path: string) {
  const member = path.startsWith(ARGUMENTS) && !path.split(".").includes("");
  const field: { type: string; values?: string[] } | undefined = member
    ? { type: "any" }
    : catalogue.get(path);
  if (!field) throw new MatchError(`there is no field ${path} to rewrite`);
  if (DERIVED.has(path)) throw new MatchError(`${path} follows from other fields; rewrite those`);
  if (path.startsWith("common.") || path === "schema_version" || path.startsWith("credential.")) {
    throw new MatchError(`${path} says what happened; it cannot be rewritten`);
  }
  return field;
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parentOf(event: Event, path: string): unknown {
  return valueAt(event, path.slice(0, path.lastIndexOf(".")));
}

/** A copy of the event with another value at `path`; objects off the path are shared. */
function withValue(event: Event, path: string, value: unknown): Event {
  const copy = { ...event } as Record<string, unknown>;
  let here = copy;
  const keys = path.split(".");
  for (const key of keys.slice(0, -1)) here = here[key] = { ...(here[key] as Record<string, unknown>) };
  here[keys.at(-1)!] = value;
  return rederive(copy as unknown as Event, path);
}

/** Puts derived fields right, so that a rule on the URL sees where a request now goes. */
function rederive(event: Event, path: string): Event {
  if (path === "file.activity.path" && event.file) {
    const { activity } = event.file;
    return { ...event, file: { activity: { ...activity, path_class: pathClass(activity.path) } } };
  }
  if (!event.http || !/^http\.request\.(scheme|host|port|path|query)$/.test(path)) return event;
  const { request } = event.http;
  const derived = { ...request, url: urlOf(request), path_class: httpPathClass(request.path ?? "") };
  return { ...event, http: { ...event.http, request: derived } };
}

/** The URL of a request, of which an event in a test may lack parts. */
function urlOf(
  { scheme = "https", host = "", port, path = "", query }: Partial<HttpEvent["request"]>,
): string {
  const usual = port === undefined || port === (scheme === "https" ? 443 : 80);
  const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `${scheme}://${name}${usual ? "" : `:${port}`}${path}${query ? `?${query}` : ""}`;
}
