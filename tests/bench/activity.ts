/**
 * 1,000 programs in a VM, and 1,000 files in its workspace and on its own disk, with the report
 * switched on, beside the same with the trace off and sbx-activity stopped. Medians of paired rounds.
 * Prints one JSON object for each.
 */
import { eventually, Sbx } from "../helper/sbx.ts";

const PROGRAMS = 1000;
const FILES = 1000;
const ROUNDS = 7;
const INSTANCE = "/sys/kernel/tracing/instances/sbx";
const ON = `echo 1 >${INSTANCE}/tracing_on; kill -CONT $p`;
const OFF = `kill -STOP $p; echo 0 >${INSTANCE}/tracing_on`;
/** Prints the `ms` of each round, off and on, in turns. */
const SCRIPT = `p=$(pgrep -f '[s]bx-activity.js' | tail -1)
run() { local from=$EPOCHREALTIME i; for ((i = 0; i < ${PROGRAMS}; i++)); do /bin/true; done; local to=$EPOCHREALTIME; echo $(( (\${to/./} - \${from/./}) / 1000 )); }
files() { local from=$EPOCHREALTIME i; mkdir $1; for ((i = 0; i < ${FILES}; i++)); do echo text >$1/$i; done; rm -r $1; local to=$EPOCHREALTIME; echo $(( (\${to/./} - \${from/./}) / 1000 )); }
for ((round = 0; round < ${ROUNDS}; round++)); do
  ${OFF}; echo off $(run); echo disk_off $(files /root/f); echo workspace_off $(files /workspace/f)
  ${ON}; echo on $(run); echo disk_on $(files /root/f); echo workspace_on $(files /workspace/f)
done
for f in RssAnon VmRSS; do grep $f /proc/$p/status; done; grep ^Pss: /proc/$p/smaps_rollup`;

const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1];

const sbx = await Sbx.make({ spare: false });
try {
  await sbx.ok("create", "dev");
  const begun = async () => (await sbx.ok("events", "dev")).includes("sbx-activity");
  await eventually("the report begins", begun);
  const output = await sbx.ok("exec", "dev", "--", "bash", "-c", SCRIPT);
  const times = (name: string) =>
    [...output.matchAll(new RegExp(`^${name} (\\d+)$`, "gm"))].map(([, ms]) => Number(ms));
  const paired = (prefix: string) => {
    const [off, on] = [times(`${prefix}off`), times(`${prefix}on`)];
    return {
      floor: median(off),
      value: median(on),
      ratio: Number((median(on) / median(off)).toFixed(3)),
      ratios: on.map((ms, at) => Number((ms / off[at]).toFixed(3))),
    };
  };
  /** Programs on record, one by one or counted. */
  const recorded = async () =>
    (await sbx.ok("events", "dev", "--jsonl", "--process", "true")).trim().split("\n").map((line) =>
      JSON.parse(line)
    )
      .filter(({ common }) => common.event_type === "process.exec")
      .reduce((sum, { common }) => sum + Number(common.labels.folded ?? 1), 0);
  await eventually("the counts are recorded", async () => await recorded() >= ROUNDS * PROGRAMS);
  console.log(JSON.stringify({
    name: "activity",
    unit: `ms for ${PROGRAMS} programs`,
    target: "<= 1.1",
    ...paired(""),
    recorded: await recorded(),
    pss_kib: Number(/^Pss:\s+(\d+)/m.exec(output)?.[1]),
    anonymous_kib: Number(/^RssAnon:\s+(\d+)/m.exec(output)?.[1]),
  }));
  /** Operations of files on record, one by one or counted. */
  const operations = async () =>
    (await sbx.ok("events", "dev", "--jsonl", "--family", "file")).trim().split("\n").map((line) =>
      JSON.parse(line)
    )
      .reduce((sum, { common }) => sum + Number(common.labels.folded ?? 1), 0);
  await eventually("the counts of files are recorded", async () => await operations() >= 6 * ROUNDS * FILES);
  for (const place of ["disk", "workspace"]) {
    console.log(JSON.stringify({
      name: `activity ${place}`,
      unit: `ms to make, write and remove ${FILES} files`,
      ...paired(`${place}_`),
    }));
  }
  console.log(
    JSON.stringify({ name: "activity files", recorded: await operations(), of: 6 * ROUNDS * FILES }),
  );
} finally {
  await sbx.dispose();
}
