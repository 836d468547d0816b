/** Which of several keys of one provider a VM uses: labels that a person, the VM's profile or corp leaves. */
import { isForVms, type StoredEntry } from "./entry.ts";
import type { Provider } from "./provider.ts";

/** Labels of the only keys of some providers; providers without an entry keep all of theirs. */
export type LabelTable = Readonly<Record<Provider, readonly string[]>>;

/** True where every table leaves a key. */
export function isLeft(
  { provider, label }: Pick<StoredEntry, "provider" | "label">,
  tables: readonly LabelTable[] = [],
): boolean {
  return tables.every((table) =>
    !Object.hasOwn(table, provider) || label !== undefined && table[provider].includes(label)
  );
}

/**
 * True for an entry that may be a VM's key of its provider: added by a person, alive, no decoy,
 * no token that renews a login, and none for some VMs, which are given its ref.
 */
export function isUsable(entry: StoredEntry): boolean {
  const { source, decoy, revoked_at, subscription, login } = entry;
  return source === "added" && !decoy && revoked_at === undefined && !login &&
    subscription?.part !== "refresh" && !isForVms(entry);
}

/** The key of a provider that a VM gets: the one added last, of the ones that the tables leave. */
export function chosenOf(
  entries: Iterable<StoredEntry>,
  provider: Provider,
  tables?: readonly LabelTable[],
): StoredEntry | undefined {
  let latest: StoredEntry | undefined;
  for (const entry of entries) {
    if (entry.provider !== provider || !isUsable(entry) || !isLeft(entry, tables)) continue;
    if (!latest || entry.created_at >= latest.created_at) latest = entry;
  }
  return latest;
}
