/** Typed rewrites of events by rules, on copies. */
import { canonicalHost } from "../../base/address/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import {
  catalogue,
  type Event,
  fileNameOf,
  type HttpEvent,
  httpPathClass,
  pathClass,
  valueAt,
} from "../../event/mod.ts";
import { MatchError } from "./field.ts";
import { compileRegex } from "./regex.ts";
import type { RewriteOp, Rule } from "./rule.ts";

/** Checked rewrite; `apply` returns the changed event, or the same object without a change. */
export interface Rewrite {
  op: RewriteOp["op"];
  path: string;
  apply(event: Event): Event;
}

/** Fields derived from others; recomputed after a rewrite. */
const DERIVED = new Set([
  "http.request.url",
  "http.request.path_class",
  ...["path_class", "name", "ext"].map((name) => `file.activity.${name}`),
]);
/** Path as the client wrote it; it is not sent. */
const RAW_PATH = "http.request.raw_path";
/** The git operation of a request: read from its path and body. */
const GIT = "http.request.git.";
const HEADERS = ["http.request.headers", "http.response.headers"];
/** Prefix of tool arguments, which are rewritten by name and may have any type. */
const ARGUMENTS = "mcp.request.arguments.";

/** Compiles the rewrites of a rule. @throws {MatchError} for a rewrite that does not fit its field */
export function compileRewrites({ action, rewrite = [] }: Rule): Rewrite[] {
  if (action !== "rewrite") {
    if (rewrite.length) throw new MatchError(`a rule with action "${action}" must not have rewrite`);
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
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) throw new MatchError(`invalid header name "${path}"`);
  return {
    op,
    path: `${parent}.${name}`,
    apply(event) {
      const headers = valueAt(event, parent) as Record<string, string[]> | undefined;
      const remaining = Object.entries(headers ?? {}).filter(([key]) => key.toLowerCase() !== name);
      if (!headers || remaining.length === Object.keys(headers).length) return event;
      return withValue(event, parent, Object.fromEntries(remaining));
    },
  };
}

function setField({ op, path, value }: RewriteOp): Rewrite {
  const { type, values } = rewritableField(path);
  const valueType = typeof value === "boolean" ? "bool" : typeof value;
  if (value === undefined) throw new MatchError(`set ${path} needs a value`);
  if (type !== "any" && valueType !== type) {
    throw new MatchError(`${path} is a ${type}, the value is a ${valueType}`);
  }
  if (values && !values.includes(value as string)) {
    throw new MatchError(`${path} must be one of ${values.join(", ")}`);
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
  const { type } = rewritableField(path);
  if (type !== "string" && type !== "any") {
    throw new MatchError(`${path} is a ${type}; replace needs a string field`);
  }
  if (pattern === undefined) throw new MatchError(`replace in ${path} needs a pattern`);
  if (value !== undefined && typeof value !== "string") {
    throw new MatchError(`replace in ${path} needs a string value`);
  }
  try {
    compileRegex(pattern);
  } catch (error) {
    throw new MatchError(`invalid pattern: ${(error as Error).message}`);
  }
  return {
    op,
    path,
    apply(event) {
      const text = valueAt(event, path);
      if (typeof text !== "string" || !isObject(parentOf(event, path))) return event;
      const changed = compileRegex(pattern).matcher(text).replaceAll(value ?? "");
      return changed === text ? event : withValue(event, path, changed);
    },
  };
}

/** Field that may be rewritten. @throws {MatchError} for any other */
function rewritableField(path: string) {
  const isArgument = path.startsWith(ARGUMENTS) && !path.split(".").includes("");
  const field: { type: string; values?: string[] } | undefined = isArgument
    ? { type: "any" }
    : catalogue.get(path);
  if (!field) throw new MatchError(`unknown field ${path}`);
  if (DERIVED.has(path)) throw new MatchError(`${path} is derived from other fields; rewrite those`);
  if (path === RAW_PATH) {
    throw new MatchError(`${path} holds the bytes that the client sent; rewrite http.request.path`);
  }
  if (path.startsWith(GIT)) {
    throw new MatchError(`${path} describes a git operation; block it instead`);
  }
  if (path.startsWith("common.") || path === "schema_version" || path.startsWith("credential.")) {
    throw new MatchError(`${path} describes the event itself and cannot be rewritten`);
  }
  return field;
}

function parentOf(event: Event, path: string): unknown {
  return valueAt(event, path.slice(0, path.lastIndexOf(".")));
}

/** Copies the event with a new value at `path`; objects off the path are shared. */
export function withValue(event: Event, path: string, value: unknown): Event {
  const copy = { ...event } as Record<string, unknown>;
  let here = copy;
  const keys = path.split(".");
  for (const key of keys.slice(0, -1)) here = here[key] = { ...(here[key] as Record<string, unknown>) };
  here[keys.at(-1)!] = value;
  return rederive(copy as unknown as Event, path);
}

/** Recomputes derived fields, so that a rule on the URL sees the new destination. */
function rederive(event: Event, path: string): Event {
  if (path === "file.activity.path" && event.file) {
    const { activity } = event.file;
    const derived = { path_class: pathClass(activity.path), ...fileNameOf(activity.path) };
    return { ...event, file: { activity: { ...activity, ...derived } } };
  }
  if (!event.http || !/^http\.request\.(scheme|host|port|path|query)$/.test(path)) return event;
  const request = { ...event.http.request };
  if (path === "http.request.host") request.host = canonicalHost(request.host) ?? request.host;
  const derived = { ...request, url: urlOf(request), path_class: httpPathClass(request.path ?? "") };
  return { ...event, http: { ...event.http, request: derived } };
}

/** URL of a request; events in tests may lack parts. */
function urlOf(
  { scheme = "https", host = "", port, path = "", query }: Partial<HttpEvent["request"]>,
): string {
  const isDefaultPort = port === undefined || port === (scheme === "https" ? 443 : 80);
  const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `${scheme}://${name}${isDefaultPort ? "" : `:${port}`}${path}${query ? `?${query}` : ""}`;
}
