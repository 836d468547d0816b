/** The gateway's allow-list: the service's own route table (docs/contracts.md §2). */
/** Method and OpenAPI path of a route (`/vms/{id}/info`). */
export interface RouteKey {
  method: string;
  path: string;
}

/** Tests whether the service has a route for a method and a path. */
export type RouteMatcher = (method: string, path: string) => boolean;

/** One path segment (RFC 3986). */
const SEGMENT = "((?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)";

/**
 * Makes a matcher of raw paths for a pattern such as `/vms/{id}/info`. A parameter with an encoded slash, dot segment or
 * control character does not match.
 */
export function pathMatcher(pattern: string): (path: string) => boolean {
  const source = pattern.split("/").map((part) =>
    /^\{\w+\}$/.test(part) ? SEGMENT : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  );
  const expression = new RegExp(`^${source.join("/")}$`);
  return (path) => expression.exec(path)?.slice(1).every(isPlain) ?? false;
}

/** Makes a matcher for the whole table. */
export function routeMatcher(table: readonly RouteKey[]): RouteMatcher {
  const byMethod = new Map<string, { fixed: Set<string>; matchers: ((path: string) => boolean)[] }>();
  for (const { method, path } of table) {
    const routes = byMethod.get(method) ?? { fixed: new Set(), matchers: [] };
    byMethod.set(method, routes);
    if (path.includes("{")) routes.matchers.push(pathMatcher(path));
    else routes.fixed.add(path);
  }
  return (method, path) => {
    const routes = byMethod.get(method);
    return routes !== undefined &&
      (routes.fixed.has(path) || routes.matchers.some((matches) => matches(path)));
  };
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
