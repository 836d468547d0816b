/** Files of a login for VMs that run already (docs/design/contracts/09-credentials.md §9, "Subscriptions"). */
import { dirname } from "node:path";
import { asSbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { CredentialStore, storePath, type Subscription, Subscriptions } from "../../credential/mod.ts";
import { grantOf, readContract } from "../../session/mod.ts";
import { type FileParts, VmFiles } from "../run/transfer.ts";
import type { Vm } from "../vm/vm.ts";
import { guestRefs } from "./credentials.ts";

/** Longest time in `ms` for the files of one VM: its guest may answer nothing. */
const GIVE_MS = timeLimit(20_000);

/** A running VM that got the files of a login, or why it has them at its next start only. */
export interface GivenVm {
  name: string;
  problem?: string;
}

/**
 * Writes the files of a login into the running VMs that use it, under their rules and into their records: refs, as at their
 * boot. A suspended VM stays so.
 */
export async function giveLoginFiles(
  { home, vms, parts }: { home: Home; vms: readonly Vm[]; parts: FileParts },
  { provider, access }: Pick<Subscription, "provider" | "access">,
): Promise<GivenVm[]> {
  const running = vms.filter(({ record, state }) => !record.parent && state.state === "Running");
  const given = await Promise.all(running.map(async (vm): Promise<GivenVm[]> => {
    const { record: { id, name, credentials } } = vm;
    try {
      const granted = grantOf(await readContract(vm.paths), credentials);
      if (!granted.providers.includes(provider)) return [];
      const { files } = await guestRefs(home, id, { ...granted, providers: [provider] });
      const texts = files.map(({ path, content, mode }) => ({
        path,
        mode,
        bytes: Uint8Array.fromBase64(content),
      }));
      // Another key of the provider is the VM's.
      if (!texts.some(({ bytes }) => new TextDecoder().decode(bytes).includes(access.ref))) return [];
      const guest = new VmFiles(parts, vm, { client: "sbx-service" }, AbortSignal.timeout(GIVE_MS));
      for (const { path, mode, bytes } of texts) {
        await guest.makeFolder(dirname(path));
        await guest.write(path, ReadableStream.from([bytes]), mode);
      }
      return [{ name }];
    } catch (error) {
      return [{ name, problem: asSbxError(error, "writing the files of a login").message }];
    }
  }));
  return given.flat();
}

/** Writes the files of the logins that a VM has chosen meanwhile, if it runs. */
export async function giveChosenLogins(
  { home, vm, parts }: { home: Home; vm: Vm; parts: FileParts },
  providers: readonly string[],
): Promise<void> {
  const logins = new Subscriptions(new CredentialStore(storePath(home))).list();
  for (const login of logins.filter(({ provider }) => providers.includes(provider))) {
    for (const { name, problem } of await giveLoginFiles({ home, vms: [vm], parts }, login)) {
      if (problem !== undefined) log.warn(`${name} has the files of its login from its next start:`, problem);
    }
  }
}
