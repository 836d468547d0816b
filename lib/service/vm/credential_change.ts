/**
 * Another choice among the keys of a provider for a VM
 * (docs/design/contracts/09-credentials.md §9, "Choice of a key").
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { grantOf, readContract, writeRecord } from "../../session/mod.ts";
import { requireLabels } from "../contract/labels.ts";
import { refreshVm } from "../contract/refresh.ts";
import { readRequest, writeRequest } from "./boot.ts";
import { isAlive, type Vm } from "./vm.ts";

/** Labels by provider; null: the key that was added last again. */
export type CredentialChange = Readonly<Record<string, string | null>>;

/**
 * Changes the choice of a VM: in one that runs at once, in any other from its next start.
 *
 * @throws {SbxError} as {@linkcode requireLabels}; `credential.not_active`: its process did not
 * take it, and keeps the former one
 */
export async function changeCredentials(home: Home, vm: Vm, change: CredentialChange): Promise<void> {
  const named = Object.entries(change).filter((pair): pair is [string, string] => pair[1] !== null);
  requireLabels(home, grantOf(await readContract(vm.paths)), Object.fromEntries(named));
  const chosen = Object.entries({ ...vm.record.credentials, ...change })
    .filter((pair): pair is [string, string] => pair[1] !== null);
  const credentials = chosen.length > 0 ? Object.fromEntries(chosen) : undefined;
  const former = vm.record;
  const request = await readRequest(vm.paths, former);
  await writeRecord(vm.paths, { ...former, credentials });
  if (isAlive(vm.state) && !await refreshVm(vm, (contract) => Promise.resolve(contract))) {
    await writeRecord(vm.paths, former);
    throw new SbxError("credential.not_active", vm.problem ?? "the VM keeps its former keys", {
      hint: `sbx stop ${former.name}, and set it then`,
    });
  }
  vm.record = { ...former, credentials };
  await writeRequest(vm.paths, { ...request, credentials });
}
