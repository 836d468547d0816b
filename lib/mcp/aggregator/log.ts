import { LOG_LINES_PER_MINUTE } from "../limit.ts";
import { foreignText } from "../text.ts";

export type Log = (line: string) => void;

/** A log that no server can flood: so many lines a minute, each short and printable; the rest is counted. */
export function boundedLog(write: Log, now: () => number = Date.now): Log {
  let minute = 0;
  let lines = 0;
  return (line) => {
    const current = Math.floor(now() / 60_000);
    if (current !== minute) {
      const left = lines - LOG_LINES_PER_MINUTE;
      if (left > 0) write(`${left} more lines were left out`);
      minute = current;
      lines = 0;
    }
    if (lines++ < LOG_LINES_PER_MINUTE) write(foreignText(line, 500));
  };
}
