/** First contact of a profile and of an organization: answers of others, kept in the event for replays. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { compilePolicy, contactsPath, type KnownHosts, Replay } from "../../../lib/policy/mod.ts";
import {
  CONTACT_AGE_MAX_MS,
  CONTACTS_MAX,
  emptyContacts,
  formatContacts,
  parseContacts,
} from "../../../lib/policy/engine/contact.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { knownHostsOf } from "../../../lib/session/known_hosts.ts";
import { TestGate } from "../../helper/gate.ts";
import { httpRequest } from "../../helper/event.ts";
import { dirname } from "node:path";

const rule = (match: string, action = "block", id = "r") =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '''${match}'''\n`;
const policyOf = (text: string) => compilePolicy(parseRules(text, "r.toml"));
const FIRST = rule(
  'has(http.request.host) && !history.known("http.request.host", "profile")',
  "ask",
  "first",
);
const knows = (...hosts: string[]): KnownHosts => ({ has: (_, __, host) => hosts.includes(host) });

function draft(host: string) {
  return {
    common: { event_type: "http.request" as const, source_engine: "network" as const },
    http: { request: httpRequest({ host }) },
  };
}

/** Decides on a request; an ask is allowed. @returns `ask` where a person was asked */
async function decide(gate: TestGate, host: string): Promise<string> {
  const deciding = gate.decide(draft(host));
  const [ask] = gate.asks.pending();
  if (ask) gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "once" });
  const passage = await deciding;
  passage.finish();
  return ask ? "ask" : passage.decision.decision;
}

Deno.test("a host that the profile knows passes; another is asked about once, and its event repeats the answer", async () => {
  const gate = new TestGate(FIRST, { known: knows("a.example") });
  const hosts = ["a.example", "b.example", "b.example"];
  const live: string[] = [];
  for (const host of hosts) live.push(await decide(gate, host));
  assertEquals(live, ["allow", "ask", "allow"]);
  const events = gate.notices.flatMap((notice) =>
    notice.type === "security-event" ? [notice.payload.event] : []
  );
  assertEquals(events.map(({ common }) => common.labels.known_profile), ["true", "false", "true"]);
  // The record is enough, whatever the profile knows by now.
  const replay = new Replay(policyOf(FIRST));
  const again = events.map((event) => {
    const { decision } = replay.decide(event).decision;
    replay.observe(event);
    return decision;
  });
  assertEquals(again, live);
});

Deno.test("an event without an answer, and a gate without a source, block", async () => {
  const gate = new TestGate(FIRST);
  const passage = await gate.decide(draft("a.example"));
  assertEquals(passage.decision.decision, "block");
  const { event } = gate.entries[0];
  assertEquals(event.common.labels, {}, "no label without an answer");
  assertEquals(new Replay(policyOf(FIRST)).decide(event).decision.decision, "block");
});

Deno.test("rules that do not ask leave events as they are", async () => {
  const gate = new TestGate("", { known: knows() });
  await gate.decide(draft("a.example"));
  assertEquals(gate.entries[0].event.common.labels, {});
});

Deno.test("a response is reviewed with the answer of its request, though the host is known by then", async () => {
  const known = new Set<string>();
  const gate = new TestGate(
    rule('http.response.status == 500 && !history.known("http.request.host", "profile")'),
    { known: { has: (_, __, host) => known.has(host) } },
  );
  const first = await gate.decide(draft("a.example"));
  known.add("a.example");
  const response = { status: 500, headers: {} };
  assertEquals(first.review(response)?.decision, "block");
  assertEquals((await gate.decide(draft("a.example"))).review(response), undefined);
});

Deno.test("the organization's list: its hosts and domains, not made longer by a VM; without one nothing is known", async () => {
  const text = rule('has(http.request.host) && !history.known("http.request.host", "organization")', "ask");
  const dir = await Deno.makeTempDir();
  const corp = (known_hosts?: string[]) => ({
    corp: { rules: [], packs: [], mcp: {}, ...(known_hosts && { known_hosts }) },
  });
  const decisions = async (known: KnownHosts, hosts: string[]) => {
    const gate = new TestGate(text, { known });
    const all: string[] = [];
    for (const host of hosts) all.push(await decide(gate, host));
    return all;
  };
  try {
    const listed = knownHostsOf(dir, "code", corp(["a.example", "*.b.example"]) as never);
    assertEquals(
      await decisions(listed, [
        "a.example",
        "x.a.example",
        "b.example",
        "x.y.b.example",
        "bb.example",
        "bb.example",
      ]),
      ["allow", "ask", "allow", "allow", "ask", "ask"],
    );
    assertEquals(await decisions(knownHostsOf(dir, "code", corp() as never), ["a.example"]), ["block"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("the file of a profile: absent it has no host, read again as it changes, broken it answers nothing", async () => {
  const dir = await Deno.makeTempDir();
  const path = contactsPath(dir, "code");
  let now = 0;
  const known = knownHostsOf(dir, "code", { corp: { rules: [], packs: [], mcp: {} } } as never, () => now);
  const has = (host: string) => known.has("profile", "http.request.host", host);
  try {
    assertEquals(has("a.example"), false);
    await Deno.mkdir(dirname(path));
    const table = emptyContacts();
    table["http.request.host"].set("a.example", Date.now());
    await Deno.writeTextFile(path, formatContacts(table, Date.now()));
    assertEquals(has("a.example"), false, "not looked at again yet");
    now += 1000;
    assertEquals(has("a.example"), true);
    assertEquals(known.has("profile", "dns.request.qname", "a.example"), false);
    for (
      const broken of [
        "{",
        "{}",
        '{"schema":"sbx.contacts.v1","hosts":[]}',
        '{"schema":"sbx.contacts.v1","hosts":{"dns.request.qname":1}}',
      ]
    ) {
      await Deno.writeTextFile(path, broken);
      now += 1000;
      assertThrows(() => has("b.example"));
      assertThrows(() => has("a.example"), Error, undefined, "nor what it had before");
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a file keeps the hosts contacted last, and none for longer than 90 days", () => {
  const now = 1_700_000_000_000;
  const table = emptyContacts();
  const hosts = table["http.request.host"];
  for (let at = 0; at < CONTACTS_MAX + 10; at++) hosts.set(`h${at}.example`, now - at);
  table["dns.request.qname"].set("old.example", now - CONTACT_AGE_MAX_MS).set("new.example", now);
  const read = parseContacts(formatContacts(table, now));
  assertEquals([read["http.request.host"].size, hosts.size], [CONTACTS_MAX, CONTACTS_MAX]);
  assert(
    read["http.request.host"].has("h0.example") && !read["http.request.host"].has(`h${CONTACTS_MAX}.example`),
  );
  assertEquals([...read["dns.request.qname"].keys()], ["new.example"]);
});

Deno.test("questions that are not about a host, or of another scope, are refused", () => {
  for (
    const [match, message] of [
      ['history.known("http.request.path", "profile")', "is about http.request.host and dns.request.qname"],
      ['history.known("http.request.host", "24h")', "asks for profile or organization"],
      ['history.known("http.request.host")', "takes 2 literal texts"],
      [
        'history.count("http.request", "history.known(\\"http.request.host\\", \\"profile\\")", "1h") > 1',
        "asks for no other history",
      ],
    ]
  ) assertThrows(() => policyOf(rule(match)), Error, message);
});
