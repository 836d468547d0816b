/**
 * TLS that a rule passes uninspected, where corp's rules read the content (docs/design/contracts/05-policy.md
 * §5, "Rewrites").
 */
import { assertEquals } from "@std/assert";
import { lintPolicy, parseRules } from "../../../lib/policy/author/mod.ts";
import { compileLayers, compilePolicy } from "../../../lib/policy/mod.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";

const HOST = "updates.example.com";
const PASS = `
[profiles.rules.pass]
action = "rewrite"
match = 'http.request.method == "CONNECT" && in_domain(http.request.host, "example.com")'
rewrite = [{ op = "set", path = "http.request.scheme", value = "tls" }]
`;

const corp = (match: string, action = "block", more = "") =>
  `[corp.rules.c]\naction = "${action}"\nmatch = '''${match}'''\n${more}\n`;

/** True when a connection to the host passes uninspected. */
function passes(rules: string): boolean {
  const { event } = compilePolicy(parseRules(rules, "r.toml")).evaluate({
    schema_version: 1,
    common: eventCommon("http.request"),
    http: { request: httpRequest({ method: "CONNECT", scheme: "https", host: HOST, port: 443, path: "" }) },
  });
  return event.http!.request.scheme === "tls";
}

Deno.test("a profile passes a host uninspected unless a rule of corp reads its content", async (t) => {
  const strip = 'rewrite = [{ op = "strip_header", path = "cookie" }]';
  const cases: [name: string, rules: string, passes: boolean][] = [
    ["no rule of corp", "", true],
    ["a path of every host", corp('http.request.path.startsWith("/admin")'), false],
    ["a path of this host", corp(`http.request.host == "${HOST}" && http.request.path == "/x"`), false],
    ["a path of another host", corp('http.request.host == "other.org" && http.request.path == "/x"'), true],
    [
      "all but another host",
      corp(
        'has(http.request) && !(http.request.host == "other.org") && ' +
          'http.request.method == "PUT"',
      ),
      false,
    ],
    [
      "a host that is excepted",
      corp(
        `has(http.request) && !(in_domain(http.request.host, "example.com")) && http.request.method == "PUT"`,
      ),
      true,
    ],
    ["a body", corp('http.request.body.text.contains("x")', "ask"), false],
    ["an answer", corp("http.response.status == 500"), false],
    ["a finding only", corp('http.request.path == "/x"', "allow", 'detection_level = "low"'), false],
    ["an allow", corp('http.request.path == "/x"', "allow"), true],
    ["a rewrite of headers", corp(`http.request.host == "${HOST}"`, "rewrite", strip), false],
    ["plain HTTP", corp('http.request.scheme == "http" && http.request.path == "/x"'), true],
    ["another port", corp('http.request.port == 80 && http.request.path == "/x"'), true],
    ["connections", corp('http.request.method == "CONNECT" && http.request.host == "other.org"'), true],
    ["models", corp('model.request.model == "x"'), false],
    ["every model call", corp('common.event_type == "model.call"'), false],
    ["requests of another kind", corp("has(dns.request) && has(common.actor)"), true],
    ["names", corp('dns.request.qname == "x.org"'), true],
    [
      "programs or another host",
      corp('process.activity.executable == "rm" || http.request.host == "x.org"'),
      true,
    ],
    ["a rule that is never true", corp('http.request.path == "/x" && false'), true],
    ["a disabled rule", corp('http.request.path == "/x"', "block", "enabled = false"), true],
    [
      "a rule of the profile",
      '[profiles.rules.p]\naction = "block"\nmatch = \'http.request.path == "/admin"\'\n',
      true,
    ],
  ];
  for (const [name, rules, want] of cases) {
    await t.step(name, () => {
      assertEquals(passes(rules + PASS), want);
      const remarks = lintPolicy(compilePolicy(parseRules(rules + PASS, "r.toml")));
      const found = remarks.filter(({ code }) => code === "passthrough");
      assertEquals(
        found.map(({ rule_id, other_rule_id }) => [rule_id, other_rule_id]),
        want ? [] : [["pass", "c"]],
      );
    });
  }
  await t.step("a replacement in the scheme", () => {
    const replace = PASS.replace('"set"', '"replace"').replace("value", 'pattern = "https", value');
    assertEquals([passes(replace), passes(corp('http.request.path == "/x"') + replace)], [true, false]);
  });
  await t.step("the connection that a remark shows", () => {
    const other = corp('http.request.host == "other.org" && http.request.path == "/x"');
    const every = corp('http.request.path == "/x"');
    const cases: [match: string, rules: string, host: string | undefined, port: number][] = [
      [`http.request.host == "${HOST}"`, every, HOST, 443],
      [
        `in_domain(http.request.host, "example.com") && http.request.port == 8443`,
        every,
        "example.com",
        8443,
      ],
      [`http.request.host.endsWith(".example.com")`, every, "www.example.com", 443],
      [`http.request.method == "CONNECT"`, other, "other.org", 443],
      [`http.request.method == "CONNECT"`, every, undefined, 443],
    ];
    for (const [match, rules, host, port] of cases) {
      const pass = PASS.replace(/match = .*/, `match = '${match}'`);
      const [remark] = lintPolicy(compilePolicy(parseRules(rules + pass, "r.toml")))
        .filter(({ code }) => code === "passthrough");
      const { request } = remark.witness!.http as { request: { host?: string; port: number } };
      assertEquals([request.host, request.port], [host, port], match);
    }
  });
  await t.step("corp itself", () => {
    assertEquals(passes(corp('http.request.path == "/x"') + PASS.replace("profiles.", "corp.")), true);
  });
  await t.step("a default rule that corp wrote", () => {
    const mine = parseRules('[default.d]\naction = "block"\nmatch = \'http.request.path == "/x"\'', "c.toml");
    const { passthrough } = compileLayers({
      corp: { rules: mine },
      profile: { rules: parseRules(PASS, "p.toml") },
    });
    const event = {
      schema_version: 1,
      common: eventCommon("http.request"),
      http: { request: httpRequest({}) },
    };
    assertEquals(passthrough.blinded(parseRules(PASS, "p.toml")[0], event as never)?.id, "d");
  });
});
