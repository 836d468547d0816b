/** A VM for one command, which goes with it, also where the command is ended. */
import type { CreateRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { whileQueued } from "./queue.ts";

/** Signals by which people, build servers and terminals end a command, and their numbers. */
const SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1 } as const;
/** Longest wait for the removal, in `ms`: build servers send SIGKILL a few seconds after SIGTERM. */
const REMOVAL_MS = timeLimit(10_000);

/** Work of a command in its VM. */
interface TemporaryWork<T> {
  run(vm: VmSummary): Promise<T>;
  /** the VM is to stay, with work that could not be taken */
  keeps?(): boolean;
}

/**
 * Creates a VM, works in it, and removes it. A signal that ends the command removes it too, with the exit
 * code of a program that the signal has ended. A create that waits for room is withdrawn by the end of its
 * connection.
 */
export async function inTemporaryVm<T>(
  client: Client,
  json: CreateRequest,
  { run, keeps = () => false }: TemporaryWork<T>,
): Promise<T> {
  const creating = client.json<VmSummary>("POST", "/vms/create", { json: { ...json, persistent: false } });
  const remove = async ({ id }: VmSummary) => {
    await client.json("DELETE", `/vms/${segment(id)}/delete?force=true`);
  };
  let removal: Promise<void> | undefined;
  const end = (number: number) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, json.queue_secs ? 0 : REMOVAL_MS);
    removal ??= creating.then(async (vm) => {
      if (keeps()) note(staysLine(vm));
      else await remove(vm);
    });
    Promise.race([promise, removal.catch(ignore("the service removes it at its next start"))])
      .finally(() => {
        clearTimeout(timer);
        Deno.exit(128 + number);
      });
  };
  const stops = Object.entries(SIGNALS).map(([signal, number]) => {
    const stop = () => end(number);
    Deno.addSignalListener(signal as Deno.Signal, stop);
    return () => Deno.removeSignalListener(signal as Deno.Signal, stop);
  });
  try {
    const vm = await whileQueued(client, json, creating);
    try {
      return await run(vm);
    } finally {
      if (removal) await removal;
      else if (keeps()) note(staysLine(vm));
      else await remove(vm);
    }
  } finally {
    for (const stop of stops) stop();
  }
}

function staysLine({ name }: VmSummary): string {
  return `sbx: the VM ${name} stays, with its work: sbx diff ${name}`;
}
