/** Pages of events: complete, in order, and of a size that fits into memory. */
import { assertEquals } from "@std/assert";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readEvents, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { requestEvent, SESSION, withLedgerPath, writeEvents } from "../../helper/ledger.ts";

Deno.test("denied events are listed in order and in pages, however they were denied", () =>
  withLedgerPath(async (path) => {
    const denied: number[] = [];
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 1; at <= 300; at++) {
        const event = requestEvent("http.request");
        const decision = at % 3 === 0 ? "block" : at % 3 === 1 ? "ask" : "allow";
        ledger.append({ event, decision: { decision } });
        const answer = at % 2 ? "block" : "allow";
        if (decision === "ask") {
          ledger.end({ event_id: event.common.event_id, decision: { decision: answer } });
        }
        if (decision === "block" || (decision === "ask" && answer === "block")) denied.push(at);
      }
    }
    const read: number[] = [];
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(path, { denied: true, limit: 7, cursor });
      read.push(...page.events.map(({ common }) => common.sequence));
      cursor = page.next_cursor;
    }
    assertEquals(read, denied);
  }));

Deno.test("a page of large events ends early, and no event is left out", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 0; at < 40; at++) {
        ledger.append({
          event: requestEvent("mcp.tool_call", { arguments: { text: "x".repeat(1_000_000) } }),
        });
      }
    }
    const pages: number[] = [];
    for (let cursor: string | undefined = "0"; cursor !== undefined;) {
      const page = await readEvents(path, { limit: 1000, cursor });
      pages.push(page.events.length);
      cursor = page.next_cursor;
    }
    assertEquals(pages, [17, 17, 6]);
    assertEquals(await verifyLedger(path), { ok: true, events: 40, sealed: true });
  }));

Deno.test("a page has the requested number of events, a hundred by default and a thousand at most", () =>
  withLedgerPath(async (path) => {
    await writeEvents(path, 1001);
    const pageOf = async (filter?: Parameters<typeof readEvents>[1]) => {
      const { events, next_cursor } = await readEvents(path, filter);
      const sequences = events.map(({ common }) => common.sequence);
      assertEquals(sequences, sequences.map((_, at) => sequences[0] + at));
      return [sequences.length, sequences[0], next_cursor];
    };
    assertEquals(await pageOf(), [100, 1, "100"]);
    assertEquals(await pageOf({ limit: 5000 }), [1000, 1, "1000"]);
    // A page that ends with the last row that was read, and with the last one there is.
    assertEquals(await pageOf({ limit: 50 }), [50, 1, "50"]);
    assertEquals(await pageOf({ limit: 1, cursor: "1000" }), [1, 1001, undefined]);
    assertEquals(await pageOf({ limit: 50, cursor: "951" }), [50, 952, undefined]);
    assertEquals(await pageOf({ cursor: "1001" }), [0, undefined, undefined]);
  }));

Deno.test("a record is read from its end backwards, page by page, and under conditions", () =>
  withLedgerPath(async (path) => {
    const blocked: number[] = [];
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 1; at <= 230; at++) {
        ledger.append({
          event: requestEvent("http.request"),
          decision: { decision: at % 40 === 0 ? "block" : "allow" },
        });
        if (at % 40 === 0) blocked.unshift(at);
      }
    }
    const readAll = async (conditions: { decision?: string; denied?: boolean }, limit: number) => {
      const pages: number[][] = [];
      for (let cursor: string | undefined, more = true; more;) {
        const page = await readEvents(path, { ...conditions, order: "newest", limit, cursor });
        pages.push(page.events.map(({ common }) => common.sequence));
        [cursor, more] = [page.next_cursor, page.next_cursor !== undefined];
      }
      return pages;
    };
    const newest = Array.from({ length: 230 }, (_, at) => 230 - at);
    assertEquals(await readAll({}, 100), [newest.slice(0, 100), newest.slice(100, 200), newest.slice(200)]);
    assertEquals((await readAll({ decision: "block" }, 2)).flat(), blocked);
    assertEquals((await readAll({ denied: true }, 2)).flat(), blocked);
    assertEquals((await readEvents(path, { order: "newest", cursor: "1" })).events, []);
  }));
