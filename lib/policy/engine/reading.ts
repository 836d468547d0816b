import { lenientReadings } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import { withValue } from "./rewrite.ts";

const PATH = "http.request.path";

/**
 * An HTTP request as servers may read its path otherwise; mostly none. Rules that restrict hold for these readings too,
 * since the upstream may read `/x%2Fadmin` as `/x/admin`.
 */
export function otherReadings(event: Event): Event[] {
  const path = event.http?.request?.path;
  if (path === undefined) return [];
  return lenientReadings(path).map((reading) => withValue(event, PATH, reading));
}
