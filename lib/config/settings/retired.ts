/**
 * Removed settings, and their replacements. A file that has them still loads
 * (docs/design/contracts/03-settings.md §3).
 */
const SECRET =
  "is retired: it was never sent, and a secret does not belong in a file. Delete the entry, revoke the " +
  "secret where it came from, add a new one with sbx credentials add mcp --host HOST, and set " +
  "telemetry.credential_ref to its ref";

const RETIRED: Readonly<Record<string, string>> = {
  "telemetry.api_key": SECRET,
  "telemetry.password": `${SECRET}, and telemetry.user to the user`,
};

/** Message for a retired setting; undefined for any other id. */
export function retiredMessage(id: string): string | undefined {
  return Object.hasOwn(RETIRED, id) ? RETIRED[id] : undefined;
}
