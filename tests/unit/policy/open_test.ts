/** Notes of lint: what a hand-written allow leaves open, each with an event that the engine allows by it. */
import { assertEquals } from "@std/assert";
import { completeEvent, lintPolicy, parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";

const allow = (id: string, match: string, more = "") =>
  `[profiles.rules.${id}]\naction = "allow"\nmatch = '''${match}'''\n${more}\n`;

/** Words of each allow; its witness is decided by it. */
function notes(text: string): Record<string, string> {
  const policy = compilePolicy(parseRules(text, "r.toml"));
  const found = lintPolicy(policy, { notes: true }).filter(({ code }) => code === "open");
  for (const { rule_id, witness, severity } of found) {
    const { decision, rule } = policy.evaluate(completeEvent(witness!)).decision;
    assertEquals([decision, rule.id, severity], ["allow", rule_id, "note"]);
  }
  return Object.fromEntries(found.map(({ rule_id, message }) => [rule_id, message]));
}

Deno.test("an allow is said to allow the parts of a request that it does not read", () => {
  assertEquals(
    notes(
      allow("host", 'http.request.host == "a.example"') +
        allow(
          "get",
          'http.request.host == "b.example" && http.request.method == "GET" && http.request.path.startsWith("/v1/")',
        ) +
        allow("domain", 'in_domain(http.request.host, "c.example") && http.request.path == "/x"') +
        allow("url", 'http.request.url == "https://d.example/"') +
        allow("names", 'dns.request.qname.endsWith(".e.example")') +
        allow("run", 'process.activity.executable == "git"') +
        allow("tool", 'mcp.request.namespaced_tool_name == "files__read"'),
    ),
    {
      host: "also allows: any method, path, query, headers and body",
      get: "also allows: every path that begins with /v1/, any query, headers and body",
      domain: "also allows: every host that ends in .c.example, any method, query, headers and body",
      url: "also allows: any method, headers and body",
      names: "also allows: every name that ends in .e.example",
      run: "also allows: any arguments and folder",
      tool: "also allows: any arguments",
    },
  );
});

Deno.test("what an earlier rule stops is not said to be allowed, and what nothing is left open of has no note", () => {
  const text =
    "[profiles.rules.stop]\naction = \"block\"\nmatch = '''http.request.method != \"GET\" || has(http.request.body.text)'''\n" +
    allow("host", 'http.request.host == "a.example"', "priority = 20") +
    allow("hidden", 'http.request.method == "POST"', "priority = 30") +
    allow("all", 'dns.request.qname == "a.example"', "priority = 30");
  assertEquals(notes(text), { host: "also allows: any path, query and headers" });
  assertEquals(
    lintPolicy(compilePolicy(parseRules(text, "r.toml"))).filter(({ code }) => code === "open"),
    [],
  );
});
