/**
 * Completed steps of a home's set-up: `setup-state.json` (docs/design/contracts/11-debug-report.md §11).
 */
import { join } from "node:path";
import { asSbxError } from "../../base/error/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { isObject } from "../../base/object/mod.ts";

/**
 * `assets`: files to boot from are installed; `vm`: a VM booted from them; `providers`: a credential was
 * added; `agent`: a VM of an agent booted.
 */
export const SETUP_STEPS = ["assets", "vm", "providers", "agent"] as const;
export type SetupStep = typeof SETUP_STEPS[number];

/** State of the set-up, as the debug report has it. */
export interface SetupState {
  path: string;
  present: boolean;
  parse_error: string | null;
  /** the mandatory steps are done: `assets` */
  install_completed: boolean;
  completed_steps: SetupStep[];
  vm_verified: boolean;
  providers_done: boolean;
}

/** Longest wait for another process that writes the file, in `ms`. */
const LOCK_MS = 2000;
/** Longest file, in `bytes`. */
const FILE_MAX = 64 * 1024;

export function setupPath({ dir }: Pick<Home, "dir">): string {
  return join(dir, "setup-state.json");
}

/** Reads the state. Never throws. */
export async function readSetup(home: Pick<Home, "dir">): Promise<SetupState> {
  const path = setupPath(home);
  try {
    const info = await Deno.stat(path);
    if (!info.isFile || info.size > FILE_MAX) return stateOf(path, [], "not a file of at most 64 KiB");
    return stateOf(path, parse(await Deno.readTextFile(path)), null);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { ...stateOf(path, [], null), present: false };
    return stateOf(
      path,
      [],
      error instanceof SyntaxError ? error.message : asSbxError(error, "reading it").message,
    );
  }
}

/**
 * Records that a step is done. New assets are a step that undoes `vm`: nothing has booted from them yet. A
 * failure is ignored, since no set-up may fail for want of its record.
 */
export async function recordStep(home: Pick<Home, "dir">, step: SetupStep): Promise<void> {
  try {
    using lock = await Deno.open(`${setupPath(home)}.lock`, { create: true, write: true, mode: 0o600 });
    if (!await lockWithin(lock, LOCK_MS)) return;
    const { present, completed_steps: before } = await readSetup(home);
    const kept = before.filter((each) => each !== step && !(step === "assets" && each === "vm"));
    const steps = SETUP_STEPS.filter((each) => each === step || kept.includes(each));
    if (present && step !== "assets" && before.includes(step)) return;
    await writeAtomic(
      setupPath(home),
      JSON.stringify({ schema: "sbx.setup.v1", completed_steps: steps }) + "\n",
    );
  } catch {
    // A full disk, or a home of another user.
  }
}

function parse(text: string): SetupStep[] {
  const value = parseJson(text);
  const steps = isObject(value) ? value.completed_steps : undefined;
  if (!Array.isArray(steps)) throw new SyntaxError("completed_steps is missing");
  return SETUP_STEPS.filter((step) => steps.includes(step));
}

function stateOf(path: string, steps: SetupStep[], parse_error: string | null): SetupState {
  return {
    path,
    present: true,
    parse_error,
    install_completed: steps.includes("assets"),
    completed_steps: steps,
    vm_verified: steps.includes("vm"),
    providers_done: steps.includes("providers"),
  };
}
