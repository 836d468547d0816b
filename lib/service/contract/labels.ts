/**
 * Keys that VMs use, of several of one provider
 * (docs/design/contracts/09-credentials.md §9, "Choice of a key").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { CredentialStore, isLeft, isUsable, type StoredEntry, storePath } from "../../credential/mod.ts";
import { type Granted, grantOf, readContract } from "../../session/mod.ts";
import type { Vm } from "../vm/vm.ts";

/** A running VM of a person, and the credentials that it may use. */
export interface GrantedVm {
  name: string;
  granted: Granted;
}

/** Running VMs of people that may use credentials. */
export async function grantedVms(vms: readonly Vm[]): Promise<GrantedVm[]> {
  const all = await Promise.all(
    vms.filter(({ record }) => !record.parent).map(async ({ record, paths }) => {
      const contract = await readContract(paths).catch(() => undefined);
      const granted = contract ? grantOf(contract, record.credentials) : { providers: [] };
      return { name: record.name, granted };
    }),
  );
  return all.filter(({ granted }) => granted.providers.length > 0);
}

/**
 * Requires keys with the labels that a new VM is to use.
 *
 * @param granted of the VM's profile and corp, before its own choice
 * @throws {SbxError} `credential.not_granted`: profile or corp leave it none of
 * this label; `credential.not_found`
 */
export function requireLabels(
  home: Pick<Home, "dir">,
  { providers, labels: tables }: Granted,
  chosen: Readonly<Record<string, string>> = {},
): void {
  const all = Object.entries(chosen);
  if (all.length === 0) return;
  const usable = new CredentialStore(storePath(home)).list().filter(isUsable);
  for (const [provider, label] of all) {
    if (!providers.includes(provider)) {
      throw new SbxError("credential.not_granted", `the VM's profile does not grant keys of ${provider}`, {
        hint: providers.length > 0
          ? `it grants ${providers.join(", ")}`
          : "add the provider to [credentials] providers of the profile",
      });
    }
    if (!isLeft({ provider, label }, tables)) {
      throw new SbxError("credential.not_granted", `the VM may not use the key "${label}" of ${provider}`, {
        hint: `[credentials.labels] of its profile, or corp, leaves ${listOf(leftLabels(tables!, provider))}`,
      });
    }
    const own = usable.filter((entry) => entry.provider === provider);
    if (own.some((entry) => entry.label === label)) continue;
    const labels = labelsOf(own.filter((entry) => isLeft(entry, tables)));
    throw new SbxError("credential.not_found", `no key of ${provider} has the label "${label}"`, {
      hint: labels.length > 0
        ? [didYouMean(label, labels), `there are ${listOf(labels)}`].filter(Boolean).join(" ")
        : `add it: sbx credentials add ${provider} --label ${label}`,
    });
  }
}

function labelsOf(entries: readonly StoredEntry[]): string[] {
  return [...new Set(entries.flatMap(({ label }) => label === undefined ? [] : [label]))];
}

/** Labels that every table with the provider has. */
function leftLabels(tables: NonNullable<Granted["labels"]>, provider: string): string[] {
  const lists = tables.filter((table) => Object.hasOwn(table, provider)).map((table) => table[provider]);
  return lists.reduce<readonly string[]>(
    (left, list) => left.filter((label) => list.includes(label)),
    lists[0],
  )
    .slice();
}

function listOf(labels: readonly string[]): string {
  return labels.length > 0 ? labels.map((label) => `"${label}"`).join(", ") : "none";
}
