import { lenientReadings } from "../../base/url/mod.ts";
import type { Event } from "../../event/mod.ts";
import { withValue } from "./rewrite.ts";

const PATH = "http.request.path";

const EXECUTABLE = "process.activity.executable";

/**
 * An event as others read it; mostly none. Rules that restrict hold for these readings too: the upstream may read the path
 * `/x%2Fadmin` as `/x/admin`, a program goes by its path and by its name, and the kernel runs the file that a link leads to.
 */
export function otherReadings(event: Event): Event[] {
  if (event.process) return executablesOf(event).map((reading) => withValue(event, EXECUTABLE, reading));
  const path = event.http?.request?.path;
  if (path === undefined) return [];
  return lenientReadings(path).map((reading) => withValue(event, PATH, reading));
}

/** Other paths and names of the program that is started. */
export function executablesOf({ process, common }: Event): string[] {
  const given = process?.activity?.executable;
  if (given === undefined) return [];
  const paths = [given, common.labels?.opened ?? given];
  const all = new Set([...paths, ...paths.map((path) => path.slice(path.lastIndexOf("/") + 1))]);
  all.delete(given);
  return [...all];
}
