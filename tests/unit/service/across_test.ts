/** Questions over the records of all sessions: order, pages, choice, and routes. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Hono } from "hono";
import { dirname } from "node:path";
import { routeAcross } from "../../../cmd/service/routes/across.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads, type SessionEntry } from "../../../lib/ledger/read/mod.ts";
import { Witnesses } from "../../../lib/service/record/witness.ts";
import {
  asksAcross,
  chooseSessions,
  costsAcross,
  countAcross,
  hitsAcross,
  overviewOf,
  readAcross,
} from "../../../lib/service/mod.ts";
import type { Vm } from "../../../lib/service/vm/vm.ts";
import { sessionPaths } from "../../../lib/session/files/mod.ts";
import { execEvent, requestEvent } from "../../helper/ledger.ts";

const idOf = (at: number) => `00000000-0000-4000-8000-${String(at).padStart(12, "0")}`;
const START = Date.UTC(2026, 10, 22);

interface Spec {
  name: string;
  profile?: string;
  /** seconds after the start, one for each event */
  times: number[];
  ended?: boolean;
}

async function withSessions(
  specs: Spec[],
  run: (home: ReturnType<typeof homeOf>, sessions: SessionEntry[]) => Promise<void>,
) {
  const dir = await Deno.makeTempDir();
  const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const sessions: SessionEntry[] = [];
  try {
    for (const [at, { name, profile = "dev", times, ended = true }] of specs.entries()) {
      const id = idOf(at);
      const { ledger: path } = sessionPaths(home, id);
      await Deno.mkdir(dirname(path), { recursive: true });
      await using ledger = await Ledger.open(path, { sessionId: id });
      for (const time of times) {
        const event = execEvent(`${name} ${time}`);
        Object.assign(event.common, { session_id: id, timestamp_unix_ms: START + time * 1000 });
        ledger.append({ event });
      }
      const iso = (time: number) => new Date(START + time * 1000).toISOString();
      sessions.push({
        id,
        name,
        profile_id: profile,
        profile_revision: "1",
        created_at: iso(times[0] ?? 0),
        ...(ended && { ended_at: iso(times.at(-1) ?? 0) }),
      });
    }
    await run(home, sessions);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** A VM of the service. @param flush answers its process's only call */
function vmOf(id: string, state: "Running" | "Stopped", flush?: () => Promise<void>) {
  const process = { call: async ({ t }: { t: string }) => t === "Flush" ? await flush?.() : undefined };
  return { record: { id }, state: { state }, process } as unknown as Pick<Vm, "record" | "state" | "process">;
}

const commands = (events: { process?: { activity: { command: string } } }[]) =>
  events.map(({ process }) => process!.activity.command);

const THREE: Spec[] = [
  { name: "a", times: [1, 4, 5, 9] },
  { name: "b", times: [2, 4, 8], ended: false },
  { name: "c", profile: "ci", times: [6, 7] },
];
const ORDER = ["a 1", "b 2", "a 4", "b 4", "a 5", "c 6", "c 7", "b 8", "a 9"];

Deno.test("across: events of all sessions in the order of time, however they are cut into pages", () =>
  withSessions(THREE, async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    for (const limit of [1, 2, 3, 4, 100]) {
      const all: string[] = [];
      let cursor: string | undefined;
      for (;;) {
        const page = await readAcross(chosen, {}, { cursor, limit });
        assert(page.events.length <= limit);
        all.push(...commands(page.events));
        cursor = page.next_cursor;
        if (cursor === undefined) break;
      }
      assertEquals(all, ORDER, `pages of ${limit}`);
    }
  }));

Deno.test("across: the newest first, however they are cut into pages, and without what happens meanwhile", () =>
  withSessions(THREE, async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    // Two of one moment are in the order of their sessions in both directions.
    const newest = ["a 9", "b 8", "c 7", "c 6", "a 5", "a 4", "b 4", "b 2", "a 1"];
    for (const limit of [1, 2, 3, 4, 100]) {
      const all: string[] = [];
      let cursor: string | undefined;
      for (;;) {
        const page = await readAcross(chosen, {}, { cursor, limit, order: "newest" });
        assert(page.events.length <= limit);
        all.push(...commands(page.events));
        cursor = page.next_cursor;
        if (cursor === undefined) break;
      }
      assertEquals(all, newest, `pages of ${limit}`);
    }
    const first = await readAcross(chosen, {}, { limit: 1, order: "newest" });
    const [, running] = chosen;
    await using ledger = await Ledger.open(running.ledger, { sessionId: running.id });
    const event = execEvent("later");
    Object.assign(event.common, { session_id: running.id, timestamp_unix_ms: START + 10_000 });
    ledger.append({ event });
    await ledger.flush();
    const { events } = await readAcross(chosen, {}, { cursor: first.next_cursor, order: "newest" });
    assertEquals(commands(events), newest.slice(1));
    assertEquals(commands((await readAcross(chosen, {}, { order: "newest", limit: 1 })).events), ["later"]);
  }));

Deno.test("across: counts of each step, by family and decision, as many as the list has", () =>
  withSessions(THREE, async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    const counts = async (step: number, conditions = {}) => {
      const { steps } = await countAcross(chosen, conditions, step);
      return steps.map(({ at_unix_ms, events }) => [(at_unix_ms - START) / 1000, events]);
    };
    assertEquals(await counts(4000), [[0, 2], [4, 5], [8, 2]]);
    assertEquals(await counts(3_600_000), [[0, 9]]);
    assertEquals(await counts(1000, { since: START + 5000, until: START + 7000 }), [[5, 1], [6, 1]]);
    assertEquals(await counts(4000, { grep: "b 4" }), [[4, 1]]);
    const [{ events, denied, families }] = (await countAcross(chosen, {}, 3_600_000)).steps;
    assertEquals([events, denied, families], [9, 0, { process: 9 }]);
    await Deno.writeTextFile(chosen[0].ledger, "no database".repeat(1000));
    const { steps: [rest], unreadable } = await countAcross(chosen, {}, 3_600_000);
    assertEquals([rest.events, unreadable], [5, [idOf(0)]]);
  }));

Deno.test("across: asks that are over, the newest first, cut and by their end", () =>
  withSessions(THREE, async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    const record = (ask_id: string, second: number, status: string) => ({
      ...{ ask_id, status, digest: "d", event_id: "e", event_type: "http.request", subject: "s" },
      ...{ session_id: "s", rule_id: "r", reason: "r" },
      ...(status !== "expired" && { answer: { decision: "allow", scope: "once" } }),
      created_at: new Date(START + second * 1000).toISOString(),
      expires_at: new Date(START + 60_000).toISOString(),
      resolved_at: new Date(START + second * 1000 + 500).toISOString(),
    });
    const put = async (at: number, records: ReturnType<typeof record>[]) => {
      await using ledger = await Ledger.open(chosen[at].ledger, { sessionId: chosen[at].id });
      for (const each of records) ledger.add({ rows: [{ table: "approvals", record: each }] });
    };
    await put(0, [record("one", 2, "allowed"), record("four", 8, "denied")]);
    await put(1, [record("two", 4, "expired"), record("three", 6, "allowed")]);
    const ids = async (...args: [object, number?]) =>
      (await asksAcross(chosen, ...args)).asks.map(({ ask_id, vm }) => `${vm} ${ask_id}`);
    assertEquals(await ids({}), ["a four", "b three", "b two", "a one"]);
    assertEquals(await ids({ status: "allowed" }), ["b three", "a one"]);
    assertEquals(await ids({ since: START + 4000, until: START + 8000 }), ["b three", "b two"]);
    // Beyond the times that a date has: clients say "without an end" so.
    for (const until of [Date.UTC(10_000, 0), Number.MAX_SAFE_INTEGER]) {
      assertEquals(await ids({ since: START + 4000, until }), ["a four", "b three", "b two"]);
      assertEquals(await ids({ since: until }), []);
    }
    assertEquals((await asksAcross(chosen, { since: Number.MAX_SAFE_INTEGER })).unreadable, []);
    assertEquals(await ids({}, 2), ["a four", "b three"]);
    assertEquals([(await asksAcross(chosen, {}, 3)).truncated, (await asksAcross(chosen, {}, 4)).truncated], [
      true,
      false,
    ]);
  }));

Deno.test("across: conditions, profile and VM select", () =>
  withSessions(THREE, async (home, sessions) => {
    const all = chooseSessions(home, sessions, {});
    const { events } = await readAcross(all, { since: START + 5000, until: START + 8000 });
    assertEquals(commands(events), ["a 5", "c 6", "c 7"]);
    assertEquals(commands((await readAcross(chooseSessions(home, sessions, { profile: "ci" }), {})).events), [
      "c 6",
      "c 7",
    ]);
    assertEquals(chooseSessions(home, sessions, { vm: "b" }).map(({ id }) => id), [idOf(1)]);
    assertThrows(() => chooseSessions(home, sessions, { vm: "nothing" }), SbxError, 'of a VM "nothing"');
    assertThrows(() => chooseSessions(home, sessions, { profile: "cii" }), SbxError, 'of the profile "cii"');
  }));

Deno.test("across: a damaged ledger is named, and the others are read", () =>
  withSessions(THREE, async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    await Deno.writeTextFile(chosen[0].ledger, "no database".repeat(1000));
    const { events, unreadable } = await readAcross(chosen, {});
    assertEquals(unreadable, [idOf(0)]);
    assertEquals(commands(events), ["b 2", "b 4", "c 6", "c 7", "b 8"]);
  }));

Deno.test("across: a cursor that is none is refused", async () => {
  for (const cursor of ["x", "", btoa("[]"), btoa('["1",{}]'), btoa('[1,{"a":"b"}]'), btoa("null")]) {
    await assertRejects(() => readAcross([], {}, { cursor }), SbxError, "invalid cursor");
  }
});

Deno.test("across: routes of events and findings, over sessions of deleted VMs too", () =>
  withSessions(THREE, async (home, sessions) => {
    const app = new Hono();
    const asked: string[] = [];
    const finding = (at: number, severity: string) => ({
      finding_id: `f${at}`,
      event_id: "0123456789ab",
      rule_id: "r",
      pack_id: "p",
      severity,
      title: "t",
      timestamp_unix_ms: START + at * 1000,
      decision: { outcome: "blocked" },
    });
    const witnesses = new Witnesses(home);
    routeAcross(app, {
      home,
      registry: { all: () => sessions.slice(0, 2).map(({ id }) => vmOf(id, "Stopped")) },
      sessions: { list: () => Promise.resolve(sessions) },
      triage: {
        list: (ledger) => {
          asked.push(ledger);
          const at = asked.length;
          return Promise.resolve([finding(10 - at, "high"), finding(20 - at, "low")] as never);
        },
      },
      witnesses,
    }, (id) => Promise.resolve(sessionPaths(home, id).ledger));
    const get = async (path: string) => await (await app.request(path)).json();
    const { events } = await get("/sessions/events?limit=3&grep=b%20");
    assertEquals(events.map(({ vm }: { vm: string }) => vm), ["b", "b", "b"]);
    const { findings } = await get("/sessions/findings?severity=medium");
    assertEquals(findings.map((each: { finding_id: string }) => each.finding_id), ["f7", "f8", "f9"]);
    assertEquals(asked.length, 3);
    assertEquals((await get("/sessions/events?address=192.0.2.7")).events, []);
    const newest = await get("/sessions/events?order=newest&limit=2");
    assertEquals(commands(newest.events), ["a 9", "b 8"]);
    const counted = await get("/sessions/events/counts?step=1000&vm=b");
    assertEquals(counted.steps.map(({ at_unix_ms }: { at_unix_ms: number }) => at_unix_ms - START), [
      ...[2000, 4000, 8000],
    ]);
    const overview = await get(`/sessions/overview?since=${START + 4000}&today=${START + 8000}&step=1000`);
    assertEquals(overview.unreadable, []);
    // Deleted VMs count for the day, and have no row.
    assertEquals(overview.today, { events: 2, denied: 0, calls: 0, cost_micros: 0, unpriced_calls: 0 });
    assertEquals(
      overview.vms.map((
        { steps, last, calls }: {
          steps: { at_unix_ms: number }[];
          last: Parameters<typeof commands>[0][0];
          calls: 0;
        },
      ) => [steps.map(({ at_unix_ms }) => at_unix_ms - START), ...commands([last]), calls]),
      [[[4000, 5000, 9000], "a 9", 0], [[4000, 8000], "b 8", 0]],
    );
    assertEquals(await get(`/sessions/${idOf(0)}/verify`), { ok: true, events: 4, sealed: true });
    const heads = await readHeads(sessionPaths(home, idOf(0)).ledger);
    witnesses.take(idOf(0), heads);
    const { ok, witnessed } = await get(`/sessions/${idOf(0)}/verify`);
    assertEquals([ok, witnessed.events, witnessed.newer], [true, 4, 0]);
    witnesses.take(idOf(0), { ...heads, events: 5 });
    const { ok: isWhole, first_bad } = await get(`/sessions/${idOf(0)}/verify`);
    assertEquals([isWhole, first_bad.code], [false, "witness.lost"]);
    assertEquals((await app.request(`/sessions/${idOf(0)}/certificate`)).status, 500);
    await witnesses.close();
    const damaged = sessionPaths(home, idOf(2)).ledger;
    const bytes = await Deno.readFile(damaged);
    await Deno.writeFile(damaged, bytes.fill(0, 0, 16));
    const verified = await get(`/sessions/${idOf(2)}/verify`);
    assertEquals([verified.ok, typeof verified.first_bad.reason], [false, "string"]);
    await Deno.writeFile(damaged, await Deno.readFile(sessionPaths(home, idOf(0)).ledger));
    // A record in the place of another one.
    assertEquals((await get(`/sessions/${idOf(2)}/verify`)).ok, false);
    assertEquals((await app.request("/sessions/overview?since=1")).status >= 400, true);
    assertEquals((await get("/asks/history")).asks, []);
    const listed = async (query: string) =>
      (await get(`/sessions/list${query}`)).sessions.map(({ name }: { name: string }) => name);
    assertEquals(await listed(""), ["a", "b", "c"]);
    assertEquals(await listed("?state=past"), ["a", "c"]);
    assertEquals(await listed("?state=running"), ["b"]);
    assertEquals(await listed("?profile=ci&state=running"), []);
    assertEquals(await listed(`?since=${START + 8000}`), ["a", "b"]);
    const first = await get("/sessions/list?limit=2");
    assertEquals(first.sessions.map(({ name }: { name: string }) => name), ["a", "b"]);
    const last = await get(`/sessions/list?limit=2&cursor=${first.next_cursor}`);
    assertEquals([last.sessions.map(({ name }: { name: string }) => name), last.next_cursor], [
      ["c"],
      undefined,
    ]);
    assertEquals((await get("/sessions/list?limit=3")).next_cursor, undefined);
    // "a" has ended since it was the last of a page.
    assertEquals(await listed(`?state=running&limit=1&cursor=${idOf(0)}`), ["b"]);
    assertEquals((await app.request("/sessions/list?cursor=gone")).status >= 400, true);
    assertEquals((await app.request("/sessions/list?limit=0")).status >= 400, true);
  }));

/** Writes a call of a model into a record. @param minutes after the start */
async function addCall(home: ReturnType<typeof homeOf>, at: number, minutes: number, micros: number) {
  const id = idOf(at);
  await using ledger = await Ledger.open(sessionPaths(home, id).ledger, { sessionId: id });
  const event = requestEvent("model.call");
  Object.assign(event.common, { session_id: id, timestamp_unix_ms: START + minutes * 60_000 });
  ledger.append({ event, decision: { decision: "allow", rule: { id: "models" } } });
  const response = {
    ...{ status: 200, tool_calls: [], input_tokens: 10, output_tokens: 1 },
    estimated_cost_micros: micros,
  };
  ledger.end({ event_id: event.common.event_id, response });
}

Deno.test("across: costs by day and hits of rules, of sessions that are over too", () =>
  withSessions(
    [{ name: "a", times: [0, 100_000], ended: false }, { name: "b", times: [0, 90_000] }],
    async (home, sessions) => {
      const DAY_MINUTES = 24 * 60;
      await addCall(home, 0, 1, 40);
      await addCall(home, 1, 2, 2);
      await addCall(home, 1, DAY_MINUTES, 5);
      const damaged = sessionPaths(home, idOf(7)).ledger;
      await Deno.mkdir(dirname(damaged), { recursive: true });
      await Deno.writeTextFile(damaged, "not a ledger");
      const listed = [...sessions, { ...sessions[0], id: idOf(7), name: "c" }];
      const chosen = chooseSessions(home, listed, {});
      const daysOf = async (since?: number) => {
        const { days, unreadable } = await costsAcross(chosen, since);
        return [days.map(({ day, calls, cost_micros }) => [day, calls, cost_micros]), unreadable];
      };
      assertEquals(await daysOf(), [[["2026-11-22", 2, 42], ["2026-11-23", 1, 5]], [idOf(7)]]);
      assertEquals(await daysOf(START + 2 * 60_000), [[["2026-11-22", 1, 2], ["2026-11-23", 1, 5]], [
        idOf(7),
      ]]);
      const today = START + DAY_MINUTES * 60_000;
      const overview = await overviewOf(chosen, new Set([idOf(0)]), { since: START, step: 60_000, today });
      assertEquals([overview.today.cost_micros, overview.vms[0].cost_micros], [5, 40]);
      assertEquals(await hitsAcross(chosen, START), {
        rules: [{ rule_id: "models", events: 3 }],
        unreadable: [idOf(7)],
      });
      assertEquals((await hitsAcross(chosen, today)).rules, [{ rule_id: "models", events: 1 }]);
    },
  ));

Deno.test("the overview has a bounded number of steps of all VMs together", () =>
  withSessions([{ name: "a", times: [0, 1, 2] }, { name: "b", times: [0, 1, 2] }], async (home, sessions) => {
    const chosen = chooseSessions(home, sessions, {});
    const terms = { since: 0, step: 1000, today: START };
    const ids = new Set(sessions.map(({ id }) => id));
    const { vms, unreadable } = await overviewOf(chosen, ids, terms, 6);
    assertEquals([vms.map(({ steps }) => steps.length), unreadable], [[3, 3], []]);
    const refused = await assertRejects(() => overviewOf(chosen, ids, terms, 5), SbxError);
    assertEquals(refused.code, "request.invalid");
  }));

Deno.test("an answer over all sessions has the events that a message named before it", () =>
  withSessions([{ name: "a", times: [], ended: false }], async (home, sessions) => {
    const [{ id }] = sessions;
    await using ledger = await Ledger.open(sessionPaths(home, id).ledger, { sessionId: id });
    const app = new Hono();
    routeAcross(app, {
      home,
      registry: { all: () => [vmOf(id, "Running", () => ledger.flush())] },
      sessions: { list: () => Promise.resolve(sessions) },
      triage: { list: () => Promise.resolve([]) },
      witnesses: new Witnesses(home),
    }, (id) => Promise.resolve(sessionPaths(home, id).ledger));
    const get = async (path: string) => await (await app.request(path)).json();
    const append = (time: number) => {
      const event = execEvent(`a ${time}`);
      Object.assign(event.common, { session_id: id, timestamp_unix_ms: START + time * 1000 });
      ledger.append({ event });
    };
    append(1);
    assertEquals(commands((await get("/sessions/events")).events), ["a 1"]);
    append(2);
    const { vms, today } = await get(`/sessions/overview?since=${START}&today=${START}&step=10000`);
    assertEquals([vms[0].steps[0].events, today.events], [2, 2]);
  }));

Deno.test("certificates are made one after another: each reads a whole record", () => {
  // The first is long, so that the others would be made before it.
  const specs = [3000, 1, 1].map((events, at) => ({ name: `vm-${at}`, times: Array(events).fill(0) }));
  return withSessions(specs, async (home, sessions) => {
    const app = new Hono();
    routeAcross(app, {
      home,
      registry: { all: () => [] },
      sessions: { list: () => Promise.resolve(sessions) },
      triage: { list: () => Promise.resolve([]) },
      witnesses: new Witnesses(home),
    }, (id) => Promise.resolve(sessionPaths(home, id).ledger));
    const made: string[] = [];
    await Promise.all(sessions.map(async ({ id, name }) => {
      const response = await app.request(`/sessions/${id}/certificate`);
      await response.body?.cancel();
      made.push(`${name} ${response.status}`);
    }));
    assertEquals(made, ["vm-0 200", "vm-1 200", "vm-2 200"]);
  });
});
