/** Conditions on lists of events: what each selects, alone and together. */
import { assertEquals } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { withResponse } from "../../../lib/session/gate/passage.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { type EventFilter, readEvents } from "../../../lib/ledger/read/mod.ts";
import { execEvent, requestEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const START = 1_700_000_000_000;

interface Listed {
  event: Event;
  decision: string;
  outcome?: object;
}

Deno.test("conditions select events by host, path, process, time, decision and text", () =>
  withLedgerPath(async (path) => {
    const events: Event[] = [
      requestEvent("http.request", { host: "api.example.com", path: "/v1/items" }),
      requestEvent("http.request", { host: "API.example.com", path: "/v2/[x]?" }),
      requestEvent("dns.query", { qname: "www.example.com" }),
      execEvent('echo "quoted" Ärger'),
      requestEvent("mcp.tool_call", { arguments: { path: "/v1/items" } }),
    ];
    events[0].common.process = { pid: 7, ppid: 1, executable: "/usr/bin/curl", command: "curl", cwd: "/" };
    events.forEach(({ common }, at) => common.timestamp_unix_ms = START + at);
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const decisions = ["allow", "ask", "block", undefined, "allow"];
      events.forEach((event, at) => {
        const decision = decisions[at];
        ledger.append({ event, ...(decision && { decision: { decision } }) });
      });
      const { event_id } = events[1].common;
      ledger.end({ event_id, decision: { decision: "block" }, error: "Refused By A Person" });
    }
    const found = async (filter: EventFilter) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.sequence);

    assertEquals(await found({ host: "api.EXAMPLE.com" }), [1, 2]);
    assertEquals(await found({ host: "*.example.com" }), [1, 2, 3]);
    assertEquals(await found({ host: "example.com" }), []);
    assertEquals(await found({ path: "/v1/*" }), [1]);
    assertEquals(await found({ path: "/v2/[x]?" }), [2]);
    assertEquals(await found({ path: "/v1/item?" }), []);
    assertEquals(await found({ process: "curl" }), [1]);
    assertEquals(await found({ process: "/usr/bin/curl" }), [1]);
    assertEquals(await found({ process: "url" }), []);
    assertEquals(await found({ process: "ls" }), [4]);
    assertEquals(await found({ since: START + 1, until: START + 3 }), [2, 3]);
    assertEquals(await found({ decision: "block" }), [2, 3]);
    assertEquals(await found({ decision: "ask" }), []);
    assertEquals(await found({ grep: 'ECHO "quoted"' }), [4]);
    assertEquals(await found({ grep: "refused by" }), [2]);
    assertEquals(await found({ grep: "%" }), []);
    assertEquals(await found({ grep: "files__read" }), [5]);
    assertEquals(await found({ host: "*", decision: "allow", until: START + 1 }), [1]);
  }));

Deno.test("severity selects events with a finding of it or of a higher one", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const severities of [[], ["low"], ["info", "high"], ["critical"]]) {
        const event = execEvent();
        const { event_id } = event.common;
        const finding = (severity: string) => ({
          ...{ finding_id: `${event_id}-${severity}`, event_id, rule_id: severity, severity },
        });
        ledger.append({ event, findings: severities.map(finding) });
      }
    }
    const found = async (filter: EventFilter) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.sequence);
    assertEquals(await found({ severity: "info" }), [2, 3, 4]);
    assertEquals(await found({ severity: "medium" }), [3, 4]);
    assertEquals(await found({ severity: "high", order: "newest", cursor: "4" }), [3]);
    assertEquals(await found({ severity: "critical", process: "nothing" }), []);
  }));

Deno.test("network selects requests, and DNS questions that led to no address", () =>
  withLedgerPath(async (path) => {
    const dns = (qname: string, response?: object, decision = "allow", outcome?: object): Listed => ({
      event: withResponse(requestEvent("dns.query", { qname, qtype: "A" }), response),
      decision,
      outcome,
    });
    const NX = { rcode: "NXDOMAIN", answers: [] };
    const entries: Listed[] = [
      { event: requestEvent("http.request", { host: "api.example.com", path: "/" }), decision: "allow" },
      dns("fine.example", undefined, "allow", { response: { rcode: "NOERROR", answers: ["192.0.2.1"] } }),
      dns("cached.example", { rcode: "NOERROR", answers: ["192.0.2.1"] }),
      dns("nothere.example", undefined, "allow", { response: NX }),
      dns("cached.nothere.example", NX),
      dns("empty.example", undefined, "allow", { response: { rcode: "NOERROR", answers: [] } }),
      dns("silent.example", undefined, "allow", { error: "no resolver answered" }),
      dns("refused.example", undefined, "block"),
      { event: execEvent("ls"), decision: "allow" },
    ];
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const { event, decision, outcome } of entries) {
        ledger.append({ event, decision: { decision } });
        if (outcome) ledger.end({ event_id: event.common.event_id, ...outcome });
      }
    }
    const found = async (filter: EventFilter) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.sequence);
    assertEquals(await found({ network: true }), [1, 4, 5, 6, 7, 8]);
    assertEquals(await found({ network: true, denied: true }), [8]);
    assertEquals(await found({ network: true, host: "nothere.example" }), [4]);
  }));

Deno.test("an address selects the requests that went to it, and the DNS questions that it answered", () =>
  withLedgerPath(async (path) => {
    const request = () => requestEvent("http.request", { host: "api.example.com", path: "/192.0.2.7" });
    const question = () => requestEvent("dns.query", { qname: "api.example.com", qtype: "A" });
    const known = { rcode: "NOERROR", answers: ["alias.example.com", "192.0.2.7"] };
    const responses = [{ address: "192.0.2.7" }, { address: "2001:db8::7" }, undefined, known];
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (const [at, response] of responses.entries()) {
        const event = at === 3 ? question() : request();
        ledger.append({ event });
        ledger.end({ event_id: event.common.event_id, ...(response && { response }) });
      }
      ledger.append({ event: withResponse(question(), known) });
      ledger.append({ event: requestEvent("mcp.tool_call", { arguments: { answers: ["192.0.2.7"] } }) });
    }
    const found = async (filter: EventFilter) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.sequence);
    assertEquals(await found({ address: "192.0.2.7" }), [1, 4, 5]);
    assertEquals(await found({ address: "192.0.2.*" }), [1, 4, 5]);
    assertEquals(await found({ address: "192.0.2" }), []);
    assertEquals(await found({ address: "2001:DB8::*" }), [2]);
    // As a warning may write it.
    assertEquals(await found({ address: "2001:0DB8:0:0::7" }), [2]);
    assertEquals(await found({ address: "::ffff:192.0.2.7" }), [1, 4, 5]);
    assertEquals(await found({ address: "192.0.2.7", family: "http" }), [1]);
  }));

Deno.test("a rare event is found however many events lie before and after it", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      for (let at = 1; at <= 45_000; at++) {
        ledger.append({ event: execEvent(at === 41_000 ? "rare" : "often") });
      }
    }
    const { events, next_cursor } = await readEvents(path, { grep: "rare", limit: 10 });
    assertEquals(events.map(({ common }) => common.sequence), [41_000]);
    assertEquals(next_cursor, undefined);
    assertEquals((await readEvents(path, { grep: "rare", cursor: "41000" })).events, []);
  }));
