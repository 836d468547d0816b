/** Metrics of several users in one text: what a hostile service writes changes no other user's series. */
import { assertEquals } from "@std/assert";
import { joinMetrics } from "../../../../lib/base/metrics/mod.ts";
import { parseExposition } from "../../../helper/exposition.ts";

const VMS = '# HELP sbx_vms VMs\n# TYPE sbx_vms gauge\nsbx_vms{state="running"} 2\n';

Deno.test("each service's samples get its user, under one head", () => {
  const text = joinMetrics([
    { labels: { user: "ann" }, text: VMS },
    { labels: { user: "bob", home: '/srv/"b"' }, text: VMS.replace("} 2", "} 0") },
  ]);
  const samples = parseExposition(text).get("sbx_vms")!.samples;
  assertEquals(samples.map(({ labels, value }) => [labels, value]), [
    [{ user: "ann", state: "running" }, 2],
    [{ user: "bob", home: '/srv/\\"b\\"', state: "running" }, 0],
  ]);
});

Deno.test("lines that are no metric of sbx, another user's series and repeated ones are left out", () => {
  const hostile = [
    "# HELP node_cpu_seconds_total forged",
    "# TYPE node_cpu_seconds_total counter",
    "node_cpu_seconds_total 1",
    "# HELP sbx_vms another text",
    "# TYPE sbx_vms counter",
    'sbx_vms{user="ann",state="running"} 99',
    'sbx_vms{state="running",user="ann"} 99',
    'sbx_vms{state="running"} 1',
    'sbx_vms{state="running"} 5',
    'sbx_vms{state="a"} not-a-number',
    'sbx_vms{state="x"} 1\r',
    'sbx_vms{state="y"} 1 1700000000',
    'sbx_denials_total{x="1"} 4',
    'sbx_vms{state="open',
  ].join("\n");
  const text = joinMetrics([
    { labels: { user: "ann" }, text: VMS },
    { labels: { user: "eve" }, text: hostile },
    { labels: { user: "ann" }, text: VMS },
  ]);
  const families = parseExposition(text);
  assertEquals([...families.keys()], ["sbx_vms"]);
  assertEquals(families.get("sbx_vms")!.type, "gauge");
  assertEquals(
    families.get("sbx_vms")!.samples.map(({ labels, value }) => [labels.user, labels.state, value]),
    [
      ["ann", "running", 2],
      ["eve", "running", 1],
    ],
  );
});

// Each of these made node_exporter drop the whole file, or end.
const UNREADABLE: Record<string, string> = {
  "a label twice": 'sbx_vms{a="1",a="2"} 1',
  "a reserved label": 'sbx_vms{__name__="x"} 1\nsbx_vms{__x="x"} 1\nsbx_vms{_x="x"} 1',
  "labels without a comma": 'sbx_vms{a="1"b="2"} 1\nsbx_vms{a="1",} 1',
  "a number out of range": "sbx_vms 1e999\nsbx_vms 0b1\nsbx_vms 0x1\nsbx_vms NaN\nsbx_vms +Inf",
  "a bound outside of a bucket": 'sbx_vms{le="1"} 1',
};

Deno.test("what a reader of the file cannot parse is left out", () => {
  for (const [what, lines] of Object.entries(UNREADABLE)) {
    const head = "# HELP sbx_vms bad \\q escape\n# TYPE sbx_vms histogram\n";
    const text = joinMetrics([
      { labels: { user: "aaa" }, text: `${head}${lines}\n` },
      { labels: { user: "ann" }, text: VMS },
    ]);
    // The first user decides neither the type nor, with an escape that is none, the text.
    assertEquals(text, VMS.replace("{", '{user="ann",'), what);
  }
});

Deno.test("a series is one whatever the order of its labels, and a family is no other's suffix", () => {
  const text = joinMetrics([{
    labels: { user: "eve", home: "/x".repeat(5000) },
    text: [
      "# TYPE sbx_wait_seconds histogram",
      'sbx_wait_seconds_bucket{b="2",le="1"} 1',
      'sbx_wait_seconds_bucket{le="1",b="2"} 1',
      'sbx_wait_seconds_bucket{le="x"} 1',
      "sbx_wait_seconds_bucket 1",
      "sbx_wait_seconds 1",
      "# TYPE sbx_wait_seconds_count gauge",
      "sbx_wait_seconds_count 3",
    ].join("\n"),
  }]);
  const own = `user="eve",home="${"/x".repeat(100)}"`;
  assertEquals(text.split("\n").slice(1), [
    "# TYPE sbx_wait_seconds histogram",
    `sbx_wait_seconds_bucket{${own},b="2",le="1"} 1`,
    "",
  ]);
});

Deno.test("metrics of processes get names that node_exporter has not", () => {
  const text = joinMetrics([{
    labels: { user: "ann" },
    text: "# HELP process_start_time_seconds Start.\n# TYPE process_start_time_seconds gauge\n" +
      "process_start_time_seconds 1.5e+9\n",
  }]);
  assertEquals(
    text,
    "# HELP sbx_process_start_time_seconds Start.\n# TYPE sbx_process_start_time_seconds gauge\n" +
      'sbx_process_start_time_seconds{user="ann"} 1.5e+9\n',
  );
});
