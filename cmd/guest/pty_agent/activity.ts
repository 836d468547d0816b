import { INSTANCE } from "../../../lib/machine/guest/trace/mod.ts";
import { ACTIVITY_KEYS } from "../../../lib/machine/guest/wire/mod.ts";

/** Held open both ways: written bytes wait for a reader, even one that is restarted. */
let pipe: Deno.FsFile | undefined;

/** Passes a key of the host on to sbx-activity, with this program's pid. */
export async function passKey(key: string): Promise<void> {
  pipe ??= await Deno.open(ACTIVITY_KEYS, { read: true, write: true });
  await pipe.write(new TextEncoder().encode(`${key} ${Deno.pid}\n`));
}

/** Switches on the trace that init has prepared: the record begins with the first program, though sbx-activity reads it later. */
export function switchTraceOn(): void {
  try {
    Deno.writeTextFileSync(`${INSTANCE}/tracing_on`, "1");
  } catch {
    // The kernel refused a part of it to init, too: sbx-activity reports why.
  }
}
