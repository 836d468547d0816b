/** `characters` of a value that are drawn; the record has all of them. */
const VALUE_MAX = 20_000;

/** Fields of an event as text, by their paths. */
export function EventFields({ value }: { value: Record<string, unknown> }) {
  return (
    <dl class="fields" tabIndex={0}>
      {[...pathsOf(value, "")].map(([path, text]) => (
        <div key={path}>
          <dt>{path}</dt>
          <dd>{text.slice(0, VALUE_MAX)}</dd>
        </div>
      ))}
    </dl>
  );
}

function* pathsOf(value: unknown, path: string): Generator<[string, string]> {
  if (typeof value !== "object" || value === null) {
    if (value !== undefined && value !== "") yield [path, String(value)];
  } else if (Array.isArray(value) && value.every((each) => typeof each !== "object")) {
    if (value.length > 0) yield [path, value.join(" ")];
  } else {
    for (const [key, each] of Object.entries(value)) yield* pathsOf(each, path ? `${path}.${key}` : key);
  }
}
