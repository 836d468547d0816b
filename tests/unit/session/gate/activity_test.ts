/** What counts as use of a session: an idle one may be suspended. */
import { assert, assertEquals } from "@std/assert";
import type { Draft } from "../../../../lib/policy/mod.ts";
import { processExec } from "../../../helper/event.ts";
import { TestGate } from "../../../helper/gate.ts";

const exec = (actor: "vm" | "host"): Draft => ({
  common: { event_type: "process.exec", source_engine: "process", actor },
  process: { activity: processExec() },
});

Deno.test("a program that the guest starts by itself is no use of its session, one of the host is", async () => {
  const gate = new TestGate();
  const before = gate.activity.lastAt;
  await new Promise((resolve) => setTimeout(resolve, 2));
  gate.observe(exec("vm"));
  assertEquals(gate.activity.lastAt, before);
  gate.observe(exec("host"));
  assert(gate.activity.lastAt > before);
});
