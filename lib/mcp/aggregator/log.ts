import { count } from "../../base/text/mod.ts";
import { LOG_LINES_PER_MINUTE } from "../limit.ts";
import { foreignText } from "../text.ts";

export type Log = (line: string) => void;

/** A log that servers cannot flood: a limited number of short, printable lines per minute; the rest is counted. */
export function boundedLog(write: Log, now: () => number = Date.now): Log {
  let minute = 0;
  let lines = 0;
  return (line) => {
    const current = Math.floor(now() / 60_000);
    if (current !== minute) {
      const suppressed = lines - LOG_LINES_PER_MINUTE;
      if (suppressed > 0) write(`${count(suppressed, "more line")} suppressed`);
      minute = current;
      lines = 0;
    }
    if (lines++ < LOG_LINES_PER_MINUTE) write(foreignText(line, 500));
  };
}
