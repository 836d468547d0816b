/**
 * A VM of 1 GiB with 300 MB in use is suspended and comes back: from the request to resume it to
 * the end of a first program by the API, beside bare QEMU as in run.ts, in turns. A host that
 * cannot suspend says what it lacks.
 */
import type { VmInfo } from "../../lib/client/api/mod.ts";
import { Qemu } from "../../lib/machine/vm/mod.ts";
import { bareBoot } from "../helper/floor.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 10;
const TARGET = 0.4;
/** What the guest keeps in its memory: `free` shows 300 MB in use then. */
const FILL = "head -c 150000000 /dev/urandom >/dev/shm/fill";

const lack = new Qemu().lackOf("save_state");
if (lack) {
  console.log(JSON.stringify({ name: "suspend", skipped: `this host ${lack}` }));
  Deno.exit(0);
}
const sbx = await Sbx.make();

async function api<T>(method: string, path: string, json?: unknown): Promise<T> {
  const { status, body } = await sbx.api(method, path, json);
  if (status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(body)}`);
  return body;
}

try {
  await sbx.ok("create", "vm");
  await sbx.ok("exec", "vm", "-c", FILL);
  const info = await api<VmInfo>("GET", "/vms/vm/info");
  const boot = await bareBoot(sbx, info);
  const times = { suspend: [] as number[], resume: [] as number[], floor: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    times.floor.push(await timed(boot));
    times.suspend.push(await timed(() => api("POST", "/vms/vm/suspend")));
    times.resume.push(
      await timed(async () => {
        await api("POST", "/vms/vm/resume");
        await api("POST", "/vms/vm/exec", { command: ["true"] });
      }),
    );
  }
  console.log(JSON.stringify({
    name: "suspend",
    unit: "ms",
    target: `resume to the end of a program <= ${TARGET}`,
    value: rounded(median(times.resume), 0),
    floor: rounded(median(times.floor), 0),
    ratio: rounded(median(times.resume.map((value, round) => value / times.floor[round]))),
    suspend: rounded(median(times.suspend), 0),
    rounds: ROUNDS,
    load: Deno.loadavg().map((value) => rounded(value, 1)),
    accelerator: info.accelerator,
  }));
} finally {
  await sbx.dispose();
}
