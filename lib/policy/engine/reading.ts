import { lenientPath } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import { withValue } from "./rewrite.ts";

const PATH = "http.request.path";

/**
 * An HTTP request as the most lenient server reads its path; `undefined` when that is the path itself. Rules that
 * restrict hold for this reading too, since the upstream may read `/x%2Fadmin` as `/x/admin`.
 */
export function lenientReading(event: Event): Event | undefined {
  const path = event.http?.request?.path;
  if (path === undefined) return undefined;
  const lenient = lenientPath(path);
  return lenient === path ? undefined : withValue(event, PATH, lenient);
}
