/**
 * Time that a VM of 1 GiB with 300 MB in use stands still while it is forked, beside its floor: as many bytes
 * copied in memory; and from the request to the end of the fork's first program by the API, beside bare QEMU
 * as in run.ts. All take turns in every round. A host that cannot fork a running VM says what it lacks:
 * `scripts/root.sh trixie` enters one that can.
 */
import type { ForkResult, VmInfo } from "../../lib/client/api/mod.ts";
import { Qemu } from "../../lib/machine/vm/mod.ts";
import { bareBoot } from "../helper/floor.ts";
import { Sbx } from "../helper/sbx.ts";
import { median, rounded, timed } from "../helper/statistics.ts";

const ROUNDS = 10;
const TARGET_MS = 150;
/** What the guest keeps in its memory: `free` shows 300 MB in use then. */
const FILL = "head -c 150000000 /dev/urandom >/dev/shm/fill";
const BLOCK_BYTES = 512;

const lack = new Qemu().lackOf("live_fork");
if (lack) {
  console.log(JSON.stringify({ name: "fork", skipped: `this host ${lack}` }));
  Deno.exit(0);
}
const sbx = await Sbx.make();

async function api<T>(method: string, path: string, json?: unknown): Promise<T> {
  const { status, body } = await sbx.api(method, path, json);
  if (status !== 200) throw new Error(`${method} ${path}: ${JSON.stringify(body)}`);
  return body;
}

/** Size of a machine's memory without what was never used, in `bytes`. */
async function memoryBytes(pid: number): Promise<number> {
  for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
    const path = `/proc/${pid}/fd/${name}`;
    if (!(await Deno.readLink(path)).includes("sbx-memory")) continue;
    return (await Deno.stat(path)).blocks! * BLOCK_BYTES;
  }
  throw new Error("the VM's process has no memory of a machine");
}

try {
  await sbx.ok("create", "source");
  await sbx.ok("exec", "source", "--", "sh", "-c", FILL);
  const source = await api<VmInfo>("GET", "/vms/source/info");
  const boot = await bareBoot(sbx, source);
  const bytes = await memoryBytes(source.pid!);
  const [from, to] = [new Uint8Array(bytes).fill(1), new Uint8Array(bytes).fill(2)];
  const times = { still: [] as number[], copy: [] as number[], fork: [] as number[], floor: [] as number[] };
  for (let round = 0; round < ROUNDS; round++) {
    times.floor.push(await timed(boot));
    times.copy.push(await timed(() => Promise.resolve(to.set(from))));
    times.fork.push(
      await timed(async () => {
        const { still_ms } = await api<ForkResult>("POST", "/vms/source/fork", { name: "copy" });
        times.still.push(still_ms!);
        await api("POST", "/vms/copy/exec", { command: ["true"] });
      }),
    );
    await api("DELETE", "/vms/copy/delete");
  }
  const ratios = (values: number[], floors: number[]) => values.map((value, round) => value / floors[round]);
  console.log(JSON.stringify({
    name: "fork",
    unit: "ms",
    target: `standstill <= ${TARGET_MS} ms`,
    value: rounded(median(times.still), 0),
    floor: rounded(median(times.copy), 0),
    ratio: rounded(median(ratios(times.still, times.copy))),
    longest: rounded(Math.max(...times.still), 0),
    memory_mb: rounded(bytes / 1e6, 0),
    fork_to_first_exec: {
      value: rounded(median(times.fork), 0),
      floor: rounded(median(times.floor), 0),
      ratio: rounded(median(ratios(times.fork, times.floor))),
    },
    rounds: ROUNDS,
    load: Deno.loadavg().map((value) => rounded(value, 1)),
    accelerator: source.accelerator,
  }));
} finally {
  await sbx.dispose();
}
