/** The gateway's allow-list: the service's own route table and nothing else (contracts.md §2). */
import type { RouteKey } from "../api/mod.ts";

/** Tells whether the service has a route for a method and a path. */
export type RouteMatcher = (method: string, path: string) => boolean;

/** One path segment as RFC 3986 writes it. */
const SEGMENT = "((?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)";

/** Matches a raw path against `/vms/{id}/info`; a parameter that hides a slash, a dot segment or a control does not. */
export function pathMatcher(pattern: string): (path: string) => boolean {
  const source = pattern.split("/").map((part) =>
    /^\{\w+\}$/.test(part) ? SEGMENT : part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
  );
  const expression = new RegExp(`^${source.join("/")}$`);
  return (path) => expression.exec(path)?.slice(1).every(isPlain) ?? false;
}

/** A matcher for the whole table. */
export function routeMatcher(table: RouteKey[]): RouteMatcher {
  const byMethod = new Map<string, { fixed: Set<string>; matchers: ((path: string) => boolean)[] }>();
  for (const { method, path } of table) {
    const known = byMethod.get(method) ?? { fixed: new Set(), matchers: [] };
    byMethod.set(method, known);
    if (path.includes("{")) known.matchers.push(pathMatcher(path));
    else known.fixed.add(path);
  }
  return (method, path) => {
    const known = byMethod.get(method);
    return known !== undefined && (known.fixed.has(path) || known.matchers.some((matches) => matches(path)));
  };
}

/** True when the decoded segment is one ordinary name for whoever decodes it next. */
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
