const OVERRIDES = new Set(["x-http-method-override", "x-http-method", "x-method-override"]);

/** True for a header by which a request asks for another method than its own, with any separators: CGI has one form. */
export function isMethodOverride(header: string): boolean {
  return header.includes("method") && OVERRIDES.has(header.replace(/[^a-z0-9]/g, "-"));
}
