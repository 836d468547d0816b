/** Kinds of detection that a person can try. */
export type Draft = { pack: Record<string, unknown> } | { rule: Record<string, unknown> };

/** Reads a detection; the service checks it. @throws {SyntaxError} when the text is no JSON object */
export function draftOf(source: string): Draft {
  const value = JSON.parse(source);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new SyntaxError("no object");
  return "schema" in value ? { pack: value } : { rule: value };
}

/** A rule that matches requests to one host. */
export const EXAMPLE = JSON.stringify(
  {
    id: "my-hosts",
    source_id: "my-hosts",
    title: "A request to a host of mine",
    event_family: "http",
    condition: "selection",
    matchers: [{
      field_path: "http.request.host",
      operator: "equals_any",
      values: ["example.com"],
      sigma_field: "host",
    }],
    severity: "low",
    confidence: "high",
    tags: [],
  },
  undefined,
  2,
);
