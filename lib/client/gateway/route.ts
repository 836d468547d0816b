/** The gateway's allow-list: the service's own route table (docs/design/contracts/02-http.md §2). */
import { memoize } from "../../base/memo/mod.ts";
import { errorBody, SbxError } from "../../base/error/mod.ts";

/** Method and OpenAPI path of a route (`/vms/{id}/info`). */
export interface RouteKey {
  method: string;
  path: string;
}

/** Methods of the service's routes with this path; none: there is no such path. */
export type MethodMatcher = (path: string) => string[];

/** One path segment (RFC 3986). */
const SEGMENT = "((?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)";

/**
 * Makes a matcher of raw paths for a pattern such as `/vms/{id}/info`. A parameter with an encoded slash, dot
 * segment or control character does not match.
 */
export function pathMatcher(pattern: string): (path: string) => boolean {
  const source = pattern.split("/").map((part) =>
    /^\{\w+\}$/.test(part) ? SEGMENT : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  );
  const expression = new RegExp(`^${source.join("/")}$`);
  return (path) => expression.exec(path)?.slice(1).every(isPlain) ?? false;
}

/** Makes a matcher for the whole table. */
export function methodMatcher(table: readonly RouteKey[]): MethodMatcher {
  const fixed = Map.groupBy(table.filter(({ path }) => !path.includes("{")), ({ path }) => path);
  const patterns = Map.groupBy(table.filter(({ path }) => path.includes("{")), ({ path }) => path);
  const matchers = [...patterns].map(([path, routes]) => ({ matches: pathMatcher(path), routes }));
  return memoize((path) => {
    const found = [
      ...fixed.get(path) ?? [],
      ...matchers.flatMap(({ matches, routes }) => matches(path) ? routes : []),
    ];
    return found.map(({ method }) => method);
  });
}

/** Paths that are no routes of the table: sockets, and the gateway's own. */
const OTHER_PATHS = [
  "/",
  "/desktop/",
  "/desktop/codes",
  "/desktop/proof",
  "/desktop/session",
  "/terminal/{id}",
  "/program/{id}",
  "/events",
  "/health",
  "/openapi.json",
];

/**
 * Makes a function that names raw paths for logs by their patterns: a path may hold text typed by mistake,
 * such as a key in place of a VM's name.
 */
export function pathNamer(table: readonly RouteKey[]): (path: string) => string {
  const patterns = [...new Set([...table.map(({ path }) => path), ...OTHER_PATHS])]
    // A fixed path comes before a pattern that matches it too.
    .sort((a, b) => Number(a.includes("{")) - Number(b.includes("{")))
    .map((pattern) => ({ pattern, matches: pathMatcher(pattern) }));
  return memoize((path) => patterns.find(({ matches }) => matches(path))?.pattern ?? "(no route)");
}

/**
 * Response to a method that no route of a path has: 204 with `Allow` for OPTIONS, otherwise
 * 405, or 404 for an unknown path.
 *
 * @param methods methods of the path's routes
 */
export function noRoute(method: string, path: string, methods: string[]): Response {
  if (methods.length === 0) {
    return refusal(404, "route.not_found", `the service has no route ${method} ${path}`, LIST);
  }
  const allow = [...methods, ...methods.includes("GET") ? ["HEAD"] : [], "OPTIONS"].join(", ");
  const response = method === "OPTIONS"
    ? new Response(null, { status: 204 })
    : refusal(405, "route.method_not_allowed", `${path} has no ${method}`, `it takes ${allow}`);
  response.headers.set("allow", allow);
  return response;
}

const LIST = "GET /openapi.json lists the routes";

function refusal(status: number, code: string, message: string, hint: string): Response {
  return Response.json(errorBody(new SbxError(code, message, { hint })), { status });
}

/** Tests whether the decoded segment is an ordinary name, also if it is decoded again. */
function isPlain(segment: string): boolean {
  let decoded: string;
  try {
    decoded = decodeURIComponent(segment);
  } catch {
    return false;
  }
  // deno-lint-ignore no-control-regex
  return decoded !== "." && decoded !== ".." && !/[/\\%\x00-\x1f\x7f]/.test(decoded);
}
