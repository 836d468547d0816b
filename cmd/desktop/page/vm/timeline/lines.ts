/**
 * Lines of a timeline: events that repeat one another, with nothing else between them,
 * are one line with their count.
 */

/** One event of a timeline. */
export interface Row {
  id: string;
  sequence: number;
  time: number;
  family: string;
  type: string;
  subject: string;
  decision: string;
  rule: string;
  /** name of the program's file */
  program: string;
  /** of a request */
  host?: string;
  status?: number;
  /** `bytes` of a request's body and of its response */
  bytes?: number;
  /** from the decision to the end of the response */
  duration_ms?: number;
  /** the text that a search matches, in lower case; of live events alone */
  all?: string;
}

/** Equal events in a row, the newest first; one event alone is a line too. */
export interface Line {
  /** of the oldest one: newer ones that join it leave its name */
  id: string;
  rows: readonly Row[];
  /** an event of a line that is open, which comes below it */
  isPart?: true;
}

/** @param rows the newest first @param open ids of lines whose events are listed below them */
export function linesOf(rows: readonly Row[], open: ReadonlySet<string>): Line[] {
  const lines: Line[] = [];
  for (let first = 0; first < rows.length;) {
    let end = first + 1;
    while (end < rows.length && isRepeat(rows[first], rows[end])) end++;
    const { id } = rows[end - 1];
    lines.push({ id, rows: rows.slice(first, end) });
    if (end - first > 1 && open.has(id)) {
      for (const row of rows.slice(first, end)) {
        lines.push({ id: `part ${row.id}`, rows: [row], isPart: true });
      }
    }
    first = end;
  }
  return lines;
}

function isRepeat(a: Row, b: Row): boolean {
  return a.type === b.type && a.subject === b.subject && a.decision === b.decision && a.rule === b.rule &&
    a.program === b.program;
}
