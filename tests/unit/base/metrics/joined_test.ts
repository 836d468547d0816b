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
