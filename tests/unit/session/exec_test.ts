/** Programs that the host starts in a guest. */
import { assertEquals } from "@std/assert";
import type { GuestLink } from "../../../lib/machine/guest/mod.ts";
import { execProgram } from "../../../lib/session/exec.ts";
import type { SessionHealth } from "../../../lib/session/health.ts";
import { TestGate } from "../../helper/gate.ts";

const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";

Deno.test("start and end of a program have the trace of its request, which the guest does not get", async () => {
  const gate = new TestGate();
  const asked: unknown[] = [];
  const exec = (request: unknown) => {
    asked.push(request);
    return Promise.resolve({ exit_code: 3, truncated: false, duration_ms: 1 });
  };
  const context = {
    gate,
    activity: { hostStarted() {}, holds: { ready: () => Promise.resolve() } },
    link: () => Promise.resolve({ exec } as unknown as GuestLink),
    health: { notifying: (_: unknown, end: unknown) => end } as unknown as SessionHealth,
  };
  const streams = {} as Parameters<typeof execProgram>[2];
  await execProgram(context, { t: "Exec", argv: ["true"], stdin: false, trace_id: TRACE }, streams);
  await execProgram(context, { t: "Exec", argv: ["true"], stdin: false }, streams);
  assertEquals(gate.entries.map(({ event: { common } }) => [common.event_type, common.trace_id]), [
    ["process.exec", TRACE],
    ["process.exit", TRACE],
    ["process.exec", undefined],
    ["process.exit", undefined],
  ]);
  assertEquals(asked.map((request) => "trace_id" in (request as object)), [false, false]);
});
