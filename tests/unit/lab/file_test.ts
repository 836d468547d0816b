/** Sessions in files: what `sbx events --jsonl` prints is read back by the lab and by backtests. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { checkEvents } from "../../../lib/detection/replay/mod.ts";
import { readEventFile } from "../../../lib/lab/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents } from "../../../lib/ledger/read/mod.ts";
import { ir, rule } from "../../helper/detection.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

Deno.test("events of a ledger go through a file unchanged, with their decisions", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const [refused, allowed] = [requestEvent("http.request"), requestEvent("http.request")];
      const rule = { id: "no-example", layer: "profile" };
      ledger.append({ event: refused, decision: { decision: "block", rule } });
      ledger.append({ event: allowed, decision: { decision: "allow", rule } });
      ledger.end({ event_id: allowed.common.event_id, duration_ms: 5, error: "reset", streamed_bytes: 900 });
      ledger.append({ event: execEvent() });
    }
    const { events } = await readEvents(path);
    const file = `${path}.jsonl`;
    await Deno.writeTextFile(file, events.map((event) => JSON.stringify(event) + "\n").join(""));

    const read = await Array.fromAsync(readEventFile(file));
    // Of an end, a replay needs what rules sum up.
    assertEquals(
      read,
      events.map(({ outcome, ...event }) => outcome ? { ...event, outcome: { streamed_bytes: 900 } } : event),
    );
    assertEquals(read.map(({ decision, rule_id }) => [decision, rule_id]), [
      ["block", "no-example"],
      ["allow", "no-example"],
      [undefined, undefined],
    ]);
    const pack = ir([rule("example", { "http.request.host": "api.example.com" })]);
    const { report } = await checkEvents(pack, file);
    assertEquals([report.event_count, report.diagnostics, report.findings.length], [3, [], 2]);
  }));

Deno.test("a file with a line that is no event is refused, by its line", async () => {
  const file = await Deno.makeTempFile({ suffix: ".jsonl" });
  const refusal = async (text: string) => {
    await Deno.writeTextFile(file, text);
    const error = await assertRejects(() => Array.fromAsync(readEventFile(file)), SbxError);
    return error.message.slice(file.length);
  };
  try {
    const good = JSON.stringify(execEvent());
    assertEquals((await refusal(`${good}\n\n{"common"\n`)).slice(0, 3), ":3:");
    assertEquals(await refusal("[]\n"), ":1: must be an object");
    assertEquals(
      await refusal(`${good.replace("schema_version", "version")}\n`),
      ":1: schema_version: Invalid input: expected 1",
    );
    for (const streamed_bytes of [-1, 0.5, 1e300, "900", null]) {
      const line = JSON.stringify({ ...execEvent(), outcome: { streamed_bytes } });
      assertStringIncludes(await refusal(`${line}\n`), ":1: outcome.streamed_bytes: ");
    }
    await assertRejects(() => Array.fromAsync(readEventFile("/nowhere.jsonl")), SbxError, "cannot be read");
  } finally {
    await Deno.remove(file);
  }
});
