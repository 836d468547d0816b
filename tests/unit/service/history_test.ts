/** Programs of a session, page by page. */
import { assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { sessionEvents, sessionHistory } from "../../../lib/service/record/ledger.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { execEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

/** Records `start` and `end` of programs: `+a` starts a, `-a` ends it, `!a` is a start that was blocked. */
async function record(path: string, steps: string[], labelled = true): Promise<Pick<Vm, "paths">> {
  await Deno.mkdir(dirname(path), { recursive: true });
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  const ids = new Map<string, string>();
  for (const [at, step] of steps.entries()) {
    const event = execEvent("make");
    event.common.timestamp_unix_ms = 1000 + at;
    const name = step.slice(1);
    const { activity } = event.process!;
    if (step.startsWith("-")) {
      activity.operation = "exit";
      activity.exit_code = Number(name);
      event.common.event_type = "process.exit";
      if (labelled) event.common.labels = { event_id: ids.get(name)! };
    } else ids.set(name, event.common.event_id);
    ledger.append({ event, decision: { decision: step.startsWith("!") ? "block" : "allow" } });
  }
  return { paths: { ledger: path } as Vm["paths"] };
}

Deno.test("equal commands keep their own exit codes, whichever ends first", () =>
  withLedgerPath(async (path) => {
    const vm = await record(path, ["+1", "!9", "+2", "+3", "-3", "-1", "-2"]);
    const { executions, next_cursor } = await sessionHistory(vm);
    assertEquals(executions.map(({ exit_code }) => exit_code), [1, null, 2, 3]);
    assertEquals(executions.map(({ duration_ms }) => duration_ms), [5, null, 4, 1]);
    assertEquals(next_cursor, undefined);
  }));

Deno.test("a record of an older sbx pairs by command, and not with a program that was blocked", () =>
  withLedgerPath(async (path) => {
    const vm = await record(path, ["!9", "+1", "-1"], false);
    assertEquals((await sessionHistory(vm)).executions.map(({ exit_code }) => exit_code), [null, 1]);
  }));

Deno.test("history and timeline page through sessions of any length", () =>
  withLedgerPath(async (path) => {
    const steps = Array.from({ length: 1300 }, (_, at) => [`+${at}`, `-${at}`]).flat();
    const vm = await record(path, steps);
    const codes: (number | null)[] = [];
    const pages: number[] = [];
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page = await sessionHistory(vm, { cursor, limit: 600 });
      codes.push(...page.executions.map(({ exit_code }) => exit_code));
      pages.push(page.executions.length);
      cursor = page.next_cursor;
    }
    assertEquals(pages, [600, 600, 100]);
    assertEquals(codes, Array.from({ length: 1300 }, (_, at) => at));

    const first = await sessionEvents(vm);
    assertEquals([first.events.length, first.next_cursor], [1000, "1000"]);
    const rest = await sessionEvents(vm, { cursor: "2000" });
    assertEquals([rest.events.length, rest.next_cursor], [600, undefined]);
  }));
