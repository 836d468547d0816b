/** A detection that a person writes: Sigma as YAML, or a rule or a pack as JSON. */

/** Kinds of detection that the service takes. */
export type Draft =
  | { sigma: { id: string; files: { path: string; text: string }[] } }
  | { pack: Record<string, unknown> }
  | { rule: Record<string, unknown> };

/** Shortest and longest id of files of Sigma rules. */
const [ID_MIN, ID_MAX] = [3, 128];
const NO_TITLE = "my-detection";

/**
 * Reads a detection; the service checks it.
 * @throws {SyntaxError} text that begins as JSON and is not JSON
 */
export function draftOf(source: string): Draft {
  if (!/^\s*[{[]/.test(source)) {
    const id = idOf(source);
    return { sigma: { id, files: [{ path: `${id}.yml`, text: source }] } };
  }
  const value = JSON.parse(source);
  if (Array.isArray(value)) throw new SyntaxError("no object");
  return "schema" in value ? { pack: value } : { rule: value };
}

/** An id from the title of the first Sigma rule. */
function idOf(source: string): string {
  const title = /^title:\s*(.+)$/m.exec(source)?.[1] ?? "";
  const id = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, ID_MAX);
  return id.length < ID_MIN ? NO_TITLE : id;
}

/** A Sigma rule that matches requests to one host. */
export const EXAMPLE = `title: A request to a host of mine
logsource:
  category: proxy
detection:
  selection:
    cs-host|endswith: example.com
  condition: selection
level: low
`;
