/** Part of a text that is replaced. */
export interface Span {
  start: number;
  end: number;
  /** text in its place; {@linkcode REDACTED} when absent */
  mark?: string;
}

/** Placeholder of a secret. */
export const REDACTED = "[redacted]";

/** Replaces spans. Overlapping ones become one, with the mark of the first. */
export function replaceSpans(text: string, spans: Span[]): string {
  if (spans.length === 0) return text;
  spans.sort((a, b) => a.start - b.start || b.end - a.end);
  let out = "";
  let at = 0;
  for (const { start, end, mark = REDACTED } of spans) {
    if (start >= at) out += text.slice(at, start) + mark;
    at = Math.max(at, end);
  }
  return out + text.slice(at);
}
