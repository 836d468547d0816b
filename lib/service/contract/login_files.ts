/**
 * Files of credentials for VMs that run already (docs/design/contracts/09-credentials.md §9, "Guest
 * environment"): of a login, and public keys of servers and signers.
 */
import { dirname } from "node:path";
import { asSbxError } from "../../base/error/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import {
  Catalogue,
  CredentialStore,
  type Provider,
  SIGNING,
  storePath,
  type Subscription,
  Subscriptions,
} from "../../credential/mod.ts";
import { grantOf, readContract } from "../../session/mod.ts";
import { type FileParts, VmFiles } from "../run/transfer.ts";
import type { Vm } from "../vm/vm.ts";
import { guestRefs } from "./credentials.ts";

/** Longest time in `ms` for the files of one VM: its guest may answer nothing. */
const GIVE_MS = timeLimit(20_000);

/** A running VM that got the files of a credential, or why it has them at its next start only. */
export interface GivenVm {
  name: string;
  problem?: string;
}

interface Guests {
  home: Home;
  vms: readonly Vm[];
  parts: FileParts;
}

/** Writes under way, by VM: of two at once, the one that reads the store last has to write last. */
const writing = new WeakMap<Vm, Promise<unknown>>();

/** Writes the files of a login into the running VMs that use it. */
export function giveLoginFiles(
  guests: Guests,
  { provider, access }: Pick<Subscription, "provider" | "access">,
): Promise<GivenVm[]> {
  // Without its ref, another key of the provider is the VM's.
  return giveFiles(guests, provider, (texts) => texts.some((text) => text.includes(access.ref)));
}

/**
 * Writes the files that name servers and signers into the running VMs that may use
 * such keys, after one was added.
 */
export function giveKeyFiles(guests: Guests, provider: Provider): Promise<GivenVm[]> {
  const hasFiles = provider === SIGNING || Catalogue.BUILT_IN.find(provider)?.ssh !== undefined;
  return hasFiles ? giveFiles(guests, provider, () => true) : Promise.resolve([]);
}

/**
 * Writes the files of a provider into running VMs that are granted it, under their rules and into their
 * records: refs and public keys, as at their boot. A suspended VM stays so.
 */
async function giveFiles(
  { home, vms, parts }: Guests,
  provider: Provider,
  isWanted: (texts: string[]) => boolean,
): Promise<GivenVm[]> {
  const running = vms.filter(({ record, state }) => !record.parent && state.state === "Running");
  const given = await Promise.all(running.map(async (vm): Promise<GivenVm[]> => {
    const { record: { id, name, credentials } } = vm;
    const write = async () => {
      const granted = grantOf(await readContract(vm.paths), credentials);
      if (!granted.providers.includes(provider)) return [];
      const files = (await guestRefs(home, id, { ...granted, providers: [provider] })).files
        .map(({ path, content, mode }) => ({ path, mode, bytes: Uint8Array.fromBase64(content) }));
      if (files.length === 0 || !isWanted(files.map(({ bytes }) => new TextDecoder().decode(bytes)))) {
        return [];
      }
      const guest = new VmFiles(parts, vm, { client: "sbx-service" }, AbortSignal.timeout(GIVE_MS));
      for (const { path, mode, bytes } of files) {
        await guest.makeFolder(dirname(path));
        await guest.write(path, ReadableStream.from([bytes]), mode);
      }
      return [{ name }];
    };
    const turn = (writing.get(vm) ?? Promise.resolve()).then(write)
      .catch((error) => [{ name, problem: asSbxError(error, "writing the files of a credential").message }]);
    writing.set(vm, turn);
    return await turn;
  }));
  return given.flat();
}

/** Writes the files of the keys that a VM has chosen meanwhile, if it runs. */
export async function giveChosenFiles(
  { home, vm, parts }: { home: Home; vm: Vm; parts: FileParts },
  providers: readonly string[],
): Promise<void> {
  const guests = { home, vms: [vm], parts };
  const logins = new Subscriptions(new CredentialStore(storePath(home))).list();
  const given = [
    ...logins.filter(({ provider }) => providers.includes(provider)).map((login) =>
      giveLoginFiles(guests, login)
    ),
    ...providers.map((provider) => giveKeyFiles(guests, provider)),
  ];
  for (const { name, problem } of (await Promise.all(given)).flat()) {
    if (problem !== undefined) log.warn(`${name} has the files of its keys from its next start:`, problem);
  }
}
