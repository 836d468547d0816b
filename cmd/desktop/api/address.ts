/** Addresses of routes. */
import type { Method, Params, PathOf, Query, RouteAt } from "../../../lib/client/api/schema.ts";

/** The address of a route, with each parameter as one segment, and its query. */
export function addressOf<M extends Method, P extends PathOf<M>>(
  _method: M,
  path: P,
  params: Params<P>,
  query?: Query<RouteAt<M, P>>,
): string {
  return filled(path, params, query);
}

/** A path with its parameters and conditions filled in; empty conditions are left out. */
export function filled(
  path: string,
  params: Record<string, string>,
  query: Record<string, string | undefined> = {},
) {
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const address = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(params[name]));
  return pairs.length === 0 ? address : `${address}?${new URLSearchParams(pairs)}`;
}
