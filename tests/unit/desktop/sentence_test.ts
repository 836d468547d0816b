/** Match expressions as sentences, both ways; and detections by pack, as the page groups and finds them. */
import { assertEquals } from "@std/assert";
import { found, packsOf } from "../../../cmd/desktop/page/detections/packs.ts";
import { draftOf } from "../../../cmd/desktop/page/detections/draft.ts";
import { conditionsOf, kindOf, matchOf } from "../../../cmd/desktop/page/rules/sentence.ts";

const HOST = "http.request.host";

Deno.test("a sentence becomes an expression and comes back as it was", () => {
  const sentences = [
    [],
    [{ field: HOST, operator: "is" as const, values: ['a "quoted" && name'] }],
    [
      { field: "http.request.method", operator: "in" as const, values: ["GET", "HEAD, too"] },
      { field: HOST, operator: "domain" as const, values: ["example.com"] },
      { field: "http.request.path", operator: "starts" as const, values: ["/v1\\n"] },
    ],
    [
      { field: "dns.request.qname", operator: "ends" as const, values: [".example"] },
      { field: "common.process.executable", operator: "contains" as const, values: ["curl"] },
      { field: "dns.request.qtype", operator: "isNot" as const, values: ["TXT"] },
    ],
  ];
  for (const sentence of sentences) assertEquals(conditionsOf(matchOf(sentence)), sentence);
});

Deno.test("an expression that is more than a sentence stays text", () => {
  for (
    const match of [
      `${HOST} == "a" || ${HOST} == "b"`,
      `!in_domain(${HOST}, "a")`,
      `${HOST} == "a" &&`,
      `&& ${HOST} == "a"`,
      `${HOST} == 'a'`,
      `${HOST} == "a" & ${HOST} == "b"`,
      `${HOST} == "\\x41"`,
      "true",
      `(${HOST} == "a") && true`,
      `http.request.port == 443`,
      `"GET" == http.request.method`,
    ]
  ) assertEquals(conditionsOf(match), undefined, match);
});

Deno.test("the kind of a sentence is the family of its fields", () => {
  const of = (match: string) => kindOf(conditionsOf(match)!);
  assertEquals(of(`dns.request.qname == "a"`), "dns");
  assertEquals(of(`common.process.executable == "/bin/a" && ${HOST} == "a"`), "http");
  assertEquals(of(`common.process.executable == "/bin/a"`), undefined);
  assertEquals(of(`dns.request.qname == "a" && ${HOST} == "a"`), undefined);
});

Deno.test("detections are grouped by pack, and found by words and state", () => {
  const counts = { match_count: 2, last_matched_event: null, last_matched_unix_ms: null };
  const of = { compiled: true, enabled: true, ...counts };
  const off = { reason: "noisy", at: "2026-01-01T00:00:00Z" };
  const packs = packsOf([
    { ...of, id: "a", pack_id: "p", scope: "user", definition: { title: "Paste", level: "high" } },
    { ...of, id: "b", pack_id: "p", scope: "user", definition: { title: "Upload" }, enabled: false, off },
    { ...of, id: "mine", pack_id: "q", scope: "runtime", definition: {}, enabled: false, match_count: 0 },
  ]);
  assertEquals(packs.map(({ id, rules, matches }) => [id, rules.length, matches]), [["p", 2, 4], [
    "mine",
    1,
    0,
  ]]);
  assertEquals(packs[0].rules[0].severity, "high");
  const ids = (words: string, state: "all" | "on" | "off" | "matched") =>
    found(packs, words, state).flatMap(({ rules }) => rules.map(({ id }) => id));
  assertEquals(ids("", "all"), ["a", "b", "mine"]);
  assertEquals(ids("PASTE", "all"), ["a"]);
  assertEquals(ids("", "on"), ["a"]);
  assertEquals(ids("", "off"), ["b", "mine"]);
  assertEquals(ids("", "matched"), ["a", "b"]);
});

Deno.test("a written detection is Sigma unless it begins as JSON", () => {
  assertEquals(draftOf("title: A site, of MINE!\n"), {
    sigma: {
      id: "a-site-of-mine",
      files: [{ path: "a-site-of-mine.yml", text: "title: A site, of MINE!\n" }],
    },
  });
  assertEquals(draftOf("id: x\n"), {
    sigma: { id: "my-detection", files: [{ path: "my-detection.yml", text: "id: x\n" }] },
  });
  assertEquals(draftOf(' {"schema": "s"}'), { pack: { schema: "s" } });
  assertEquals(draftOf('{"id": "i"}'), { rule: { id: "i" } });
});
