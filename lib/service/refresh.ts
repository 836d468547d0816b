/** New rules for VMs that run: what does not hold together is told, and what was in force stays. */
import type { CorpStore } from "../corp/mod.ts";
import { asSbxError } from "../base/error/mod.ts";
import { ask } from "../ipc/mod.ts";
import { log } from "../base/log/mod.ts";
import { type Contract, readContract, writeContract } from "../session/mod.ts";
import { type Watch, watchFiles } from "../settings/watch.ts";
import { corpFiles, requireGood } from "./contract.ts";
import type { Vm } from "./vm.ts";

/** How a VM's process is told: `McpRefreshTools` also connects all MCP servers anew. */
export type Refreshing = { t: "Refresh" } | { t: "McpRefreshTools" };

/** The last refresh of each VM: the next is made of what it leaves, or one of two would be lost. */
const last = new WeakMap<Vm, Promise<boolean>>();

/**
 * Changes what holds in one running session, after every change that was asked for before.
 *
 * @param change made of the contract in force
 * @returns whether it is in force; if not, `vm.problem` says why
 */
export function refreshVm(
  vm: Vm,
  change: (now: Contract) => Promise<Contract>,
  order: Refreshing = { t: "Refresh" },
): Promise<boolean> {
  const done = (last.get(vm) ?? Promise.resolve()).then(() => refresh(vm, change, order));
  last.set(vm, done);
  return done;
}

async function refresh(
  vm: Vm,
  change: (now: Contract) => Promise<Contract>,
  order: Refreshing,
): Promise<boolean> {
  try {
    const before = await readContract(vm.paths);
    const after = await change(before);
    await requireGood(after);
    // What is there need not be written: there may be no room for it.
    if (JSON.stringify(after) !== JSON.stringify(before)) await writeContract(vm.paths, after);
    await ask(vm.paths.socket, order).catch(async (error) => {
      await writeContract(vm.paths, before);
      throw error;
    });
    vm.problem = undefined;
    return true;
  } catch (cause) {
    const error = asSbxError(cause, `refreshing the rules of "${vm.record.name}"`);
    vm.problem = `VM "${vm.record.name}" goes on with the rules that it had: ${error.message}`;
    log(vm.problem);
    return false;
  }
}

/** Calls `onChange` when corp.toml or a file of rules or detections that it names changes. */
export function watchCorp(corp: CorpStore, onChange: () => Promise<void>): Watch {
  let watch: Watch;
  let closed = false;
  const start = () => {
    const { state, path } = corp;
    // What a file names that was refused may be what is wrong with it.
    const configs = ["config" in state ? state.config : [], "refused" in state ? state.refused ?? [] : []]
      .flat();
    const named = configs.flatMap((config) => corpFiles(config, path));
    watch = watchFiles([path, ...new Set(named)], async () => {
      await corp.load();
      await onChange();
      if (closed) return;
      watch.close();
      start();
    });
  };
  start();
  const close = () => {
    closed = true;
    watch.close();
  };
  return { close, [Symbol.dispose]: close };
}
