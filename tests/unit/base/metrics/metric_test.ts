import { assertEquals } from "@std/assert";
import { Histogram, Value } from "../../../../lib/base/metrics/mod.ts";
import { parseExposition } from "../../../helper/exposition.ts";

Deno.test("counters, gauges and histograms are written as Prometheus reads them", () => {
  const counter = Value.counter({ name: "a_total", help: "a\\b\nc", labels: { family: ["http", 'q"\\\n'] } });
  counter.add({ family: "http" }, 2);
  counter.add({ family: 'q"\\\n' });
  const gauge = Value.gauge({ name: "b", help: "b" });
  const histogram = new Histogram({ name: "c_seconds", help: "c" }, [0.1, 1]);
  for (const seconds of [0.05, 0.1, 0.5, 7, NaN]) histogram.observe(seconds);
  const families = parseExposition(counter.render() + gauge.render() + histogram.render());
  assertEquals(families.get("a_total")!.samples.map(({ value }) => value), [2, 1]);
  assertEquals(families.get("b")!.samples.map(({ value }) => value), [0]);
  assertEquals(families.get("c_seconds")!.samples.map(({ value }) => value), [2, 3, 4, 7.65, 4]);
});

Deno.test("a value outside of a label's set makes no series of its own", () => {
  const counter = Value.counter({ name: "a_total", help: "a", labels: { family: ["http"] } });
  for (let at = 0; at < 1000; at++) counter.add({ family: `evil${at}"} 1\n`, host: "x" });
  const { samples } = parseExposition(counter.render()).get("a_total")!;
  assertEquals(samples, [{ name: "a_total", labels: { family: "other" }, value: 1000 }]);
});
