import { assertEquals } from "@std/assert";
import { traceIdOf } from "../../../lib/event/mod.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736", PARENT = "00f067aa0ba902b7";

Deno.test("a trace is taken from exactly one traceparent that is well formed", () => {
  assertEquals(traceIdOf({ traceparent: [`00-${TRACE}-${PARENT}-01`] }), TRACE);
  const good = `00-${TRACE}-${PARENT}-01`;
  for (
    const values of [
      [],
      [good, good],
      [good.toUpperCase()],
      [` ${good}`],
      [`${good}-x`],
      [`${good}\n`],
      [good.replace("00-", "ff-")],
      [good.replace("00-", "01-")],
      [`00-${"0".repeat(32)}-${PARENT}-01`],
      [`00-${TRACE}-${"0".repeat(16)}-01`],
      [`00-${TRACE}-${PARENT}`],
      [`00-${TRACE.slice(1)}-${PARENT}-01`],
      [""],
    ]
  ) assertEquals(traceIdOf({ traceparent: values }), undefined, JSON.stringify(values));
  assertEquals(traceIdOf({}), undefined);
});
