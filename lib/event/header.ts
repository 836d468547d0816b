/** Header fields with a meaning of their own for events: traces, and methods that a request asks for. */

/** `traceparent` of W3C Trace Context, version 00: version, trace, parent, flags. */
const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/;

/**
 * Trace that a request claims to be part of. A guest can claim any: it groups events, and decides nothing.
 *
 * @param headers in lower case, with their values
 * @returns 32 hex characters; `undefined` without exactly one header of version 00 whose ids are not zero
 */
export function traceIdOf(headers: Readonly<Record<string, readonly string[]>>): string | undefined {
  const values = Object.hasOwn(headers, "traceparent") ? headers.traceparent : [];
  return values.length === 1 ? readTraceparent(values[0]) : undefined;
}

/** Trace of one `traceparent`; `undefined` for any other text or value. */
export function readTraceparent(value: unknown): string | undefined {
  const [, trace, parent] = typeof value === "string" ? TRACEPARENT.exec(value) ?? [] : [];
  return trace === undefined || /^0+$/.test(trace) || /^0+$/.test(parent) ? undefined : trace;
}

const OVERRIDES = new Set(["x-http-method-override", "x-http-method", "x-method-override"]);

/**
 * True for a header by which a request asks for another method than its own, with
 * any separators: CGI has one form.
 */
export function isMethodOverride(header: string): boolean {
  return header.includes("method") && OVERRIDES.has(header.replace(/[^a-z0-9]/g, "-"));
}
