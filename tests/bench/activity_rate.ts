/**
 * Events of a guest in a second: folders made and removed, each one a record of the guest's kernel, a frame
 * and a row or a count of the host. Beside it, how fast the same program is alone, and the processor time of
 * `sbx-activity` for an event. Prints one JSON object.
 */
import { eventually, Sbx } from "../helper/sbx.ts";
import { median } from "../helper/statistics.ts";

const FOLDERS = 10_000;
/** One for making, one for removing. */
const EVENTS = 2 * FOLDERS;
const ROUNDS = 5;
const TARGET = 5000;
/**
 * Prints the `ms` of the loop, and the processor time that sbx-activity took from before
 * it until the marker is written.
 */
const SCRIPT = `
import os, sys, time
pid = max(int(p) for p in os.listdir("/proc") if p.isdigit() and b"sbx-activity.js" in open(f"/proc/{p}/cmdline", "rb").read())
def cpu():
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")
used = cpu()
began = time.monotonic()
for _ in range(${FOLDERS}):
    os.mkdir("/root/rate")
    os.rmdir("/root/rate")
print("loop", round((time.monotonic() - began) * 1000))
open(sys.argv[1], "w").close()
quiet, last = 0, cpu()
while quiet < 5:
    time.sleep(0.2)
    now = cpu()
    quiet = quiet + 1 if now == last else 0
    last = now
print("cpu", cpu() - used)
`;

const sbx = await Sbx.make({ spare: false });
try {
  await sbx.ok("create", "dev");
  await eventually("the report begins", async () => (await sbx.ok("events", "dev")).includes("sbx-activity"));
  const rates: number[] = [], loops: number[] = [], cpus: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const marker = `/root/.env.${round}`;
    const output = await sbx.ok("exec", "dev", "--", "python3", "-c", SCRIPT, marker);
    const number = (name: string) => Number(new RegExp(`${name} (\\d+)`).exec(output)![1]);
    const times: number[] = [];
    await eventually("the marker is told", async () => {
      const lines = (await sbx.ok("events", "dev", "--jsonl", "--since", "10m")).trim().split("\n");
      const events = lines.map((line) => JSON.parse(line));
      const last = events.find(({ file }) => file?.activity.path === marker);
      const first = events.findLast(({ process, common }) =>
        common.actor === "vm" && common.event_type === "process.exec" &&
        process.activity.argv.includes(marker)
      );
      if (last && first) times.push(last.common.timestamp_unix_ms - first.common.timestamp_unix_ms);
      return times.length > 0;
    });
    rates.push(EVENTS / times[0] * 1000);
    loops.push(number("loop"));
    cpus.push(number("cpu"));
  }
  console.log(JSON.stringify({
    name: "activity rate",
    unit: "events in a second, from the guest's kernel to the ledger",
    target: `>= ${TARGET}`,
    value: Math.round(median(rates)),
    rates: rates.map(Math.round),
    loop_alone: Math.round(EVENTS / median(loops) * 1000),
    guest_us_per_event: Math.round(median(cpus) * 1000 / EVENTS),
    rounds: ROUNDS,
  }));
} finally {
  await sbx.dispose();
}
