/**
 * The explanation of a decision: values, near misses and remedies; and what counts when rules fail to decide.
 */
import { assertEquals } from "@std/assert";
import { nearMisses, subjectOf, withValuesOf } from "../../../lib/policy/engine/run.ts";
import { FlatEvent } from "../../../lib/policy/engine/field.ts";
import { completeEvent } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { decided, HOST, http, rule } from "../../helper/policy.ts";

const P = "http.request.path";
const decisionOf = (rules: Rule[], event = http()) => compilePolicy(rules).evaluate(event).decision;

Deno.test("a record has the values of the fields that its rule tests, where the event has them", () => {
  const match = `${HOST} && (!has(http.request.raw_path) || ${P} != "/x") && http.request.headers != {}`;
  const fields = (path: string, header: string) =>
    decisionOf([rule("profile", "a", "block", match)], http({ path, headers: { a: [header] } }))
      .matched_fields;
  const headers = (value: string) => ({ path: "http.request.headers", value: { a: [value] } });
  const host = { path: "http.request.host", value: "example.com" };
  assertEquals(fields("/y", "v"), [host, { path: P, value: "/y" }, headers("v")]);
  // Long text is cut, also that of objects.
  const longest = `/${"y".repeat(255)}`;
  assertEquals(fields(longest, "v")[1].value, longest);
  assertEquals(fields(`${longest}y`, "v")[1].value, `${longest}…`);
  const text = (length: number) => "v".repeat(length - '{"a":[""]}'.length);
  assertEquals(fields("/y", text(256))[2], headers(text(256)));
  assertEquals(fields("/y", text(257))[2].value, `${JSON.stringify({ a: [text(257)] }).slice(0, 256)}…`);
});

Deno.test("values that were cut are renewed from another form of the event, and no others", () => {
  const cut = { path: P, value: `${"y".repeat(256)}…` };
  const short = { path: "http.request.method", value: "GET" };
  const decision = {
    ...decisionOf([]),
    matched_fields: [cut, short],
    near_misses: [{ ...cut, rule_id: "r", failed: "f" }],
  };
  const renewed = withValuesOf(decision, http({ path: "/ref", method: "PUT" }));
  assertEquals(renewed.matched_fields, [{ path: P, value: "/ref" }, short]);
  assertEquals(renewed.near_misses, [{ path: P, value: "/ref", rule_id: "r", failed: "f" }]);
});

const near = (id: string, clauses: string[], more: Partial<Rule> = {}) =>
  rule("profile", id, "allow", clauses.join(" && "), more);
const missesOf = (rules: Rule[], denied = true) =>
  nearMisses(new FlatEvent(http()), compilePolicy(rules).rules, denied).map(({ rule_id }) => rule_id);

Deno.test("near misses are the rules that failed in the fewest clauses of the most", () => {
  const [yes, no] = [[HOST, `has(${P})`, `${P} == "/"`], [`${P} == "/x"`, `${P} == "/y"`, `${P} == "/z"`]];
  const rules = [
    near("two-of-five", [...yes, no[0], no[1]]),
    near("one-of-two", [yes[0], no[0]]),
    near("one-of-four", [...yes, no[0]]),
    near("one-of-one", [no[0]]),
    near("two-of-two", [no[0], no[1]]),
    near("all-of-three", no),
    near("matches", yes),
    rule("profile", "block", "block", `${yes[0]} && ${no[0]}`),
    rule("default", "default", "allow", `${yes[0]} && ${no[0]}`),
  ];
  assertEquals(missesOf(rules), ["one-of-four", "one-of-two", "one-of-one"]);
  assertEquals(missesOf([rules[0], rules[4], rules[5]]), ["two-of-five"]);
  assertEquals(missesOf(rules, false), ["block"]);
  assertEquals(missesOf([rule("profile", "ask", "ask", no[0]), near("fails", ["1 / 0 == 1"])], false), [
    "ask",
  ]);
  assertEquals(missesOf([near("fails", ["1 / 0 == 1"])]), ["fails"]);
  // A limit on the rules that are examined.
  const many = Array.from({ length: 64 }, (_, at) => near(`m${at}`, [HOST]));
  assertEquals(missesOf([...many.slice(1), near("z", [no[0]])]), ["z"]);
  assertEquals(missesOf([...many, near("z", [no[0]])]), []);
});

Deno.test("a remedy is the smallest change that would allow the event", () => {
  const dns = completeEvent({
    schema_version: 1,
    common: { event_type: "dns.query" },
    dns: {
      request: { qname: "a.test", qtype: "A" },
      response: { rcode: "NOERROR", answers: ["10.0.0.1", "192.0.2.1"] },
    },
  } as never);
  const place = { file: "f.toml", line: 3 };
  const allow = 'allow it in the profile: action = "allow"';
  const cases: [rules: Rule[], remedy: string | undefined, event?: typeof dns][] = [
    [[], undefined],
    [[rule("profile", "a", "ask", HOST)], "approve it: sbx asks lists pending asks"],
    [[rule("corp", "a", "ask", HOST)], "approve it: sbx asks lists pending asks"],
    [[rule("corp", "a", "block", HOST, place)], "only your administrator can change corp rules"],
    [[rule("profile", "a", "block", HOST, place)], "change f.toml:3, or set enabled = false there"],
    [[rule("profile", "a", "block", HOST)], 'change rule "a", or set enabled = false there'],
    [[rule("profile", "a", "block", `${HOST} && 1 / 0 == 1`, place)], "correct f.toml:3"],
    [
      [rule("profile", "a", "block", HOST, { priority: 11 })],
      `${allow}, priority = 10, match = 'http.request.host == "example.com"'`,
    ],
    [
      [rule("default", "a", "block", `common.event_type == "process.exit"`)],
      `${allow}, match = 'process.activity.executable == "ls"'`,
      completeEvent({
        schema_version: 1,
        common: { event_type: "process.exit" },
        process: { activity: { operation: "exit", executable: "ls" } },
      } as never),
    ],
    [
      [rule("default", "a", "block", `common.event_type == "mcp.event"`)],
      `${allow}, match = 'common.event_type == "mcp.event"'`,
      completeEvent({ schema_version: 1, common: { event_type: "mcp.event" } }),
    ],
    [
      [],
      `${allow}, match = 'dns.request.qname == "a.test" && ` +
      `dns.response.answers.exists(answer, answer in ["10.0.0.1"])'`,
      dns,
    ],
  ];
  for (const [rules, remedy, event] of cases) assertEquals(decisionOf(rules, event).remedy, remedy);
  assertEquals(subjectOf(dns), { path: "dns.request.qname", value: "a.test" });
});

Deno.test("a rule that does not name a private address opens none, and the next one that does decides", () => {
  const names = `http.request.host == "10.0.0.1"`;
  const cases: [rules: Rule[], host: string, decided: [string, string]][] = [
    [[rule("profile", "any", "allow", "has(http.request)")], "10.0.0.1", [
      "block",
      "default:block-private-http",
    ]],
    [
      [
        rule("profile", "any", "allow", "has(http.request)"),
        rule("profile", "one", "allow", names, { priority: 20 }),
      ],
      "10.0.0.1",
      ["allow", "profile:one"],
    ],
    [
      [
        rule("profile", "any", "ask", "has(http.request)"),
        rule("profile", "one", "allow", names, { priority: 20 }),
      ],
      "10.0.0.1",
      ["ask", "profile:any"],
    ],
    [
      [
        rule("profile", "any", "ask", "has(http.request)"),
        rule("profile", "one", "block", names, { priority: 20 }),
      ],
      "10.0.0.1",
      ["block", "profile:one"],
    ],
    [[rule("profile", "any", "ask", "has(http.request)")], "10.0.0.1", [
      "block",
      "default:block-private-http",
    ]],
    [[rule("profile", "net", "ask", `in_cidr(http.request.host, "10.0.0.0/8")`)], "10.0.0.1", [
      "ask",
      "profile:net",
    ]],
    [[rule("profile", "v6", "allow", `http.request.host == "fd00::1"`)], "fd00::1", ["allow", "profile:v6"]],
    [[rule("profile", "v6", "allow", `http.request.host.contains(":")`)], "fd00::1", [
      "block",
      "default:block-private-http",
    ]],
    [
      [rule("profile", "head", "allow", `"[fd00::1]:80" in http.request.headers["host"]`)],
      "fd00::1",
      ["allow", "profile:head"],
    ],
  ];
  for (const [rules, host, expected] of cases) {
    const name = host.includes(":") ? `[${host}]` : host;
    assertEquals(decided(compilePolicy(rules), http({ host, headers: { host: [`${name}:80`] } })), expected);
  }
});

Deno.test("a request is decided by every method that a server may take", () => {
  const policy = compilePolicy([rule("profile", "no", "block", `http.request.method == "DELETE"`)]);
  const form = "application/x-www-form-urlencoded";
  const body = (text: string, content_type: string) => ({
    body: { state: "text", truncated: false, text, content_type },
  });
  const part = (name: string) =>
    body(
      `--b\r\nContent-Disposition: form-data; name=${name}\r\nX: y\r\n\r\nDELETE\r\n`,
      "Multipart/form-data; boundary=b",
    );
  const cases: [request: object, isBlocked: boolean][] = [
    [{}, false],
    [{ headers: { "x-http-method-override": ["PUT, delete"] } }, true],
    [{ headers: { "x-other": ["DELETE"] } }, false],
    [{ query: "a=1&_method=delete" }, true],
    [{ query: "a=1;_HttpMethod=DELETE" }, true],
    [{ query: "%5fm%65thod=DELETE" }, true],
    [{ query: "method=DELETE&x_method=DELETE" }, false],
    [body("_method=DELETE", form), true],
    [body("_method=DELETE", "text/plain"), false],
    [body("_method=DELETE", ""), false],
    [part('"_method"'), true],
    [part("_httpMethod"), true],
    [part('"a_method"'), false],
    [body('{"_method" : "delete"}', "application/JSON"), true],
    [body('{"\\u005fm\\u0065thod":"DELETE"}', "application/json"), true],
    [body('{"a\\"_method":"DELETE"}', "application/json"), false],
  ];
  for (const [request, isBlocked] of cases) {
    assertEquals(decided(policy, http(request))[0], isBlocked ? "block" : "allow", JSON.stringify(request));
  }
  // Names that no server takes, the method itself, and as many as a request may name.
  const named = (...names: string[]) =>
    policy.evaluate(http({ query: names.map((name) => `_method=${name}`).join("&") }));
  assertEquals(named("GET", "D-ELETE", "1").decision.rule.id, "allow-http");
  const letters = [..."ABCDEFGHI"];
  assertEquals(named("GET", ...letters.slice(1)).decision.rule.id, "allow-http");
  assertEquals(named(...letters).decision.rule.id, "guard-evaluation");
});
