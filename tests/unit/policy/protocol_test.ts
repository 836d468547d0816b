/** Rules that hold a connection to a protocol, and allows that hold it to none. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { lintPolicy, parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { RULES_FILE } from "../../helper/gate.ts";

const CONNECT = 'http.request.method == "CONNECT" && http.request.host == "db.example.com"';
const rule = (id: string, more: string, match = CONNECT, action = "allow") =>
  `[profiles.rules.${id}]\naction = "${action}"\nmatch = '${match}'\n${more}\n`;

const policyOf = (text: string) => compilePolicy(parseRules(text, RULES_FILE));

function connection(protocol?: string, method = "CONNECT"): Event {
  const labels = protocol === undefined ? {} : { protocol };
  return {
    schema_version: 1,
    common: { event_id: "1", event_type: "http.request", source_engine: "network", actor: "vm", labels },
    http: {
      request: {
        method,
        scheme: "tcp",
        host: "db.example.com",
        port: 5432,
        path: "",
        query: "",
        headers: {},
      },
    },
  } as unknown as Event;
}

Deno.test("a rule with a protocol decides on connections that may speak it", () => {
  const policy = policyOf(
    rule("pg", 'protocol = "postgres"') + rule("ssh", 'protocol = "ssh"\npriority = 20'),
  );
  const decided = (event: Event) => {
    const { decision, rule, protocol } = policy.evaluate(event).decision;
    return [decision, rule.id, protocol];
  };
  assertEquals(decided(connection("postgres")), ["allow", "pg", "postgres"]);
  assertEquals(decided(connection("ssh")), ["allow", "ssh", "ssh"]);
  assertEquals(decided(connection()), ["allow", "pg", "postgres"]);
  assertEquals(decided(connection("redis")), ["block", "block-raw-tcp", undefined]);
  assertEquals(decided(connection("unknown")), ["block", "block-raw-tcp", undefined]);
  assertEquals(decided(connection(undefined, "GET")), ["allow", "allow-http", undefined]);
});

Deno.test("a rewritten connection is held to the protocol of the host that it goes to", () => {
  const elsewhere = rule(
    "move",
    `rewrite = [{ op = "set", path = "http.request.host", value = "other.example.com" }]`,
    CONNECT,
    "rewrite",
  );
  const other = CONNECT.replace("db.", "other.");
  const first = (more: string) => rule("first", more) + elsewhere;
  assertEquals(
    policyOf(first("") + rule("pg", 'protocol = "postgres"', other)).evaluate(connection()).decision.protocol,
    "postgres",
  );
  const { decision, remedy } =
    policyOf(first('protocol = "ssh"') + rule("pg", 'protocol = "postgres"', other))
      .evaluate(connection()).decision;
  assertEquals([decision, remedy], ["block", "let its rules name one protocol"]);
});

Deno.test("a protocol is of those that are known, and of a rule that allows or asks", () => {
  const error = assertThrows(() => policyOf(rule("pg", 'protocol = "postgress"')), SbxError);
  assertStringIncludes(error.message, "protocol");
  for (const action of ["block", "rewrite"]) {
    const rewrite = action === "rewrite"
      ? `\nrewrite = [{ op = "set", path = "http.request.port", value = 1 }]`
      : "";
    const error = assertThrows(
      () => policyOf(rule("pg", `protocol = "postgres"${rewrite}`, CONNECT, action)),
      SbxError,
    );
    assertStringIncludes(error.message, `a rule with action "${action}" must not have protocol`);
  }
  policyOf(rule("pg", 'protocol = "postgres"', `${CONNECT} // the last line may be a comment`));
});

Deno.test("lint names an allow of connections that are held to no protocol, and the rule that has no effect in them", () => {
  const lint = (text: string) => lintPolicy(policyOf(text)).filter(({ code }) => code === "raw-connection");
  const [found, ...more] = lint(rule("raw", ""));
  assertEquals([found.rule_id, found.severity, more], ["raw", "warning", []]);
  assertStringIncludes(found.message, 'protocol = "postgres"');
  const blocked =
    '[corp.rules.no-admin]\naction = "block"\nmatch = \'http.request.path.startsWith("/admin")\'\n';
  const [withRule] = lint(blocked + rule("raw", "", 'http.request.scheme == "tcp"'));
  assertEquals([withRule.rule_id, withRule.other_rule_id], ["raw", "no-admin"]);
  assertStringIncludes(withRule.message, 'corp rule "no-admin"');
  assert(withRule.witness);
  assertEquals(lint(blocked + rule("raw", 'protocol = "postgres"')), []);
  assertEquals(lint(rule("host", "", 'http.request.host == "db.example.com"')), []);
  assertEquals(lint(rule("tls", "", `${CONNECT} && http.request.scheme == "tls"`)), []);
});

Deno.test("lint does not take an allow of one protocol for an allow of every connection", () => {
  const codes = (first: string) =>
    lintPolicy(policyOf(rule("a", `${first}\npriority = 20`) + rule("b", "priority = 30", CONNECT, "block")))
      .filter(({ rule_id }) => rule_id === "b").map(({ code }) => code);
  assertEquals(codes(""), ["hidden-block"]);
  assertEquals(codes('protocol = "ssh"'), []);
});
