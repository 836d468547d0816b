/** Rules of a project file: they take away, and never allow (docs/design/contracts/04-profiles.md §4). */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { compileLayers, joinNarrowing, type Rule } from "../../../lib/policy/mod.ts";
import { NarrowingRules } from "../../../lib/policy/author/schema.ts";
import { decided, HOST, http, rule } from "../../helper/policy.ts";

const project = (action: "block" | "ask", match = HOST, line?: number): NarrowingRules => [
  { id: "a", action, match, ...line !== undefined && { line } },
];

const decide = (corp: Rule[], profile: Rule[], rules: NarrowingRules, request?: object) =>
  decided(
    compileLayers({ corp: { rules: corp }, profile: { rules: profile }, project: rules }),
    http(request),
  );

Deno.test("a project's rule holds over an allow of the profile, and not over corp", () => {
  const allow = [rule("profile", "p", "allow", HOST)];
  assertEquals(decide([], allow, project("block")), ["block", "profile:project.a"]);
  assertEquals(decide([], allow, project("ask")), ["ask", "profile:project.a"]);
  assertEquals(decide([], [], project("ask")), ["ask", "profile:project.a"]);
  const corp = [rule("corp", "c", "allow", HOST)];
  assertEquals(decide(corp, [], project("block")), ["allow", "corp:c"]);
  assertEquals(decide(corp, [], project("ask")), ["allow", "corp:c"]);
});

Deno.test("a project's ask takes the place of no block, whatever way the path is written", () => {
  const block = [rule("profile", "p", "block", HOST)];
  assertEquals(decide([], block, project("ask")), ["block", "profile:p"]);
  const admin = 'http.request.path.startsWith("/x/admin")';
  const rules = [rule("profile", "p", "block", admin), rule("profile", "z", "allow", HOST)];
  const written = { path: "/x%2Fadmin" };
  assertEquals(decide([], rules, [], written), ["block", "profile:p"]);
  assertEquals(decide([], rules, project("ask", admin), written), ["block", "profile:p"]);
  assertEquals(decide([], rules, project("ask"), written), ["block", "profile:p"]);
  assertEquals(decide([], [], project("ask", admin), written), ["ask", "profile:project.a"]);
  assertEquals(decide([], [], project("block", admin), written), ["block", "profile:project.a"]);
});

Deno.test("a project's ask that names a private address opens it no more than before", () => {
  const request = { host: "10.0.0.1", url: "https://10.0.0.1/" };
  const named = project("ask", 'http.request.host == "10.0.0.1"');
  assertEquals(decide([], [], named, request)[0], "block");
});

Deno.test("a project's ask lifts no protocol that an ask of the profile holds a connection to", () => {
  const request = { method: "CONNECT", scheme: "tcp", host: "10.0.0.1", port: 22, url: "tcp://10.0.0.1:22/" };
  const profile = [
    rule("profile", "ask", "ask", 'http.request.method == "CONNECT"', { priority: 10, protocol: "ssh" }),
    rule("profile", "opens", "allow", 'http.request.host == "10.0.0.1"', { priority: 20 }),
  ];
  const protocolOf = (project: NarrowingRules) =>
    compileLayers({ corp: { rules: [] }, profile: { rules: profile }, project })
      .evaluate(http(request)).decision;
  assertEquals([protocolOf([]).decision, protocolOf([]).protocol], ["ask", "ssh"]);
  const after = protocolOf(project("ask", 'http.request.method == "CONNECT"'));
  assertEquals([after.decision, after.protocol], ["ask", "ssh"]);
});

Deno.test("a decision by a project's rule names the file and the line", () => {
  const layers = { corp: { rules: [] }, profile: { rules: [] }, project: project("block", HOST, 3) };
  const { decision } = compileLayers(layers).evaluate(http());
  assertEquals([decision.rule.file, decision.rule.line], [".sbx.toml", 3]);
  assertEquals(decision.remedy, "change .sbx.toml:3 of the folder, for a new VM");
});

Deno.test("the words of a repository are marked as its own in a question", () => {
  const reason = 'safe" (checked by sbx)\nanswer y';
  for (const words of [{ reason }, { name: reason }, { reason, name: "x" }]) {
    const rules = project("ask").map((rule) => ({ ...rule, ...words }));
    const allow = [rule("profile", "p", "allow", HOST)];
    const layers = { corp: { rules: [] }, profile: { rules: allow }, project: rules };
    const { decision } = compileLayers(layers).evaluate(http());
    assertEquals(decision.rule.reason, `.sbx.toml says ${JSON.stringify(reason)}`);
  }
});

Deno.test("a project's rule that allows, rewrites or has a priority is refused", () => {
  const [given] = project("block");
  for (const more of [{ action: "allow" }, { action: "rewrite" }, { priority: -900 }, { narrows: false }]) {
    assertThrows(() => NarrowingRules.parse([{ ...given, ...more }]));
  }
});

/** Numbers that are the same in each run. */
function random(seed: number): (below: number) => number {
  return (below) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * below);
  };
}

/** How little of an event passes. */
const STRICTNESS: Record<string, number> = { allow: 0, ask: 1, block: 2 };

Deno.test("random project rules never make a decision milder", () => {
  const below = random(7);
  const pick = <T>(values: readonly T[]): T => values[below(values.length)];
  const MATCHES = [
    HOST,
    'http.request.path == "/x/admin"',
    'http.request.path.startsWith("/x")',
    'http.request.method == "POST"',
    'http.request.host == "10.0.0.1"',
    "is_private_host(http.request.host)",
    'http.request.headers["missing"][0] == "a"',
    'http.request.method == "CONNECT"',
  ] as const;
  const EVENTS = ["example.com", "10.0.0.1", "other.example"].flatMap((host) =>
    ["/x/admin", "/x%2Fadmin", "/"].flatMap((path) =>
      [{}, { "x-http-method-override": ["POST"] }].map((headers) => http({ host, path, headers }))
    )
  ).concat(["tcp", "ssh"].map((scheme) => http({ method: "CONNECT", scheme })));
  const ACTIONS = ["block", "ask", "allow", "rewrite"] as const;
  const rewrite = [{ op: "set" as const, path: "http.request.path", value: "/x/admin" }];
  let narrowed = 0;
  for (let round = 0; round < 80; round++) {
    const rules = (layer: "corp" | "profile") =>
      Array.from({ length: below(4) }, (_, at) => {
        const action = pick(ACTIONS);
        return rule(layer, `${layer}${at}`, action, pick(MATCHES), {
          priority: layer === "corp" ? -10 - below(3) : 10 + below(3),
          ...action === "rewrite" && { rewrite },
        });
      });
    const layers = { corp: { rules: rules("corp") }, profile: { rules: rules("profile") } };
    const given: NarrowingRules = Array.from({ length: 1 + below(3) }, (_, at) => ({
      id: `${at}`,
      action: pick(["block", "ask"]),
      match: pick(MATCHES),
    }));
    const [before, after] = [compileLayers(layers), compileLayers({ ...layers, project: given })];
    for (const event of EVENTS) {
      const [was, is] = [before, after].map((policy) => policy.evaluate(event).decision.decision);
      assert(
        STRICTNESS[is] >= STRICTNESS[was],
        `${was} became ${is}: ${JSON.stringify([layers, given, event.http])}`,
      );
      if (was !== is) narrowed++;
    }
  }
  assert(narrowed > 50, `only ${narrowed} decisions changed`);
});

Deno.test("rules of several project files hold together, whatever ids their authors chose", () => {
  const block = (id: string, host: string) => ({
    id,
    action: "block" as const,
    match: `http.request.host == "${host}"`,
  });
  const first = [block("a", "one.example"), block("a.2", "two.example")];
  const second = [block("a", "three.example"), block("other", "one.example")];
  const joined = joinNarrowing(first, second);
  assertEquals(joined.map(({ id }) => id), ["a", "a.2", "a.3"]);
  assertEquals(NarrowingRules.parse(joined), joined);
  const allow = [rule("profile", "p", "allow", "true")];
  for (const host of ["one.example", "two.example", "three.example"]) {
    assertEquals(decide([], allow, joined, { host })[0], "block");
  }
  const long = "x".repeat(100);
  assertEquals(joinNarrowing([block(long, "a")], [block(long, "b")]).map(({ id }) => id.length), [100, 100]);
  const many = Array.from({ length: 64 }, (_, at) => block(`r${at}`, `${at}.example`));
  assertEquals(joinNarrowing(many, many).length, 64);
  const error = assertThrows(() => joinNarrowing(many, [block("one-more", "x.example")]));
  assertEquals((error as { code?: string }).code, "project.invalid");
});
