/** Rules made of answers: they hold for exactly the events that the answer covers. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Event } from "../../../lib/event/mod.ts";
import { parseRules, savedRule } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { http } from "../../helper/policy.ts";

const asking = (priority: number, layer = "profiles") =>
  parseRules(
    `[${layer}.rules.ask]\naction = "ask"\npriority = ${priority}\nmatch = 'http.request.host == "api.example.com"'`,
    "f.toml",
  )[0];

/** Decisions on events once the answer about the first is saved. */
function decisions(rule: Rule, events: Event[]): string[] {
  const { id, rule: saved } = savedRule(events[0], rule);
  const full = {
    ...saved,
    id,
    layer: "profile",
    name: saved.name ?? id,
    priority: saved.priority ?? 10,
  } as Rule;
  const policy = compilePolicy(id === rule.id ? [full] : [rule, full]);
  return events.map((event) => policy.evaluate(event).decision.decision);
}

const request = (changes: object = {}) =>
  http({ host: "api.example.com", method: "POST", path: "/a", ...changes }) as Event;

Deno.test("a saved answer allows the covered events, whatever the priority of the rule that asks", () => {
  const events = [
    request(),
    request({ query: "x=1" }),
    request({ path: "/a/b" }),
    request({ method: "GET" }),
    request({ port: 8443 }),
  ];
  for (const priority of [10, 11, 500]) {
    assertEquals(decisions(asking(priority), events), ["allow", "allow", "ask", "ask", "ask"], `${priority}`);
  }
});

Deno.test("a saved answer about a push covers its refs and kinds only", () => {
  const push = (...updates: [kind: string, ref: string][]) =>
    request({
      git: {
        service: "git-receive-pack",
        updates: updates.map(([kind, ref]) => ({ kind, ref, old: "0".repeat(40), new: "1".repeat(40) })),
      },
    });
  const dev: [string, string] = ["update", "refs/heads/dev"];
  const events = [
    push(dev),
    push(["delete", "refs/heads/dev"]),
    push(dev, ["update", "refs/heads/main"]),
    request(),
  ];
  assertEquals(decisions(asking(20), events), ["allow", "ask", "ask", "ask"]);
  assertEquals(decisions(asking(10), events), ["allow", "ask", "ask", "ask"]);
});

Deno.test("an answer to corp's ask, and one that nobody could read, become no rule", () => {
  assertThrows(() => savedRule(request(), asking(-10, "corp")), SbxError, "asks each time");
  assertThrows(() => savedRule(request({ path: `/${"x".repeat(2000)}` }), asking(10)), SbxError, "too long");
});

Deno.test("text of a guest stays a literal of the rule", async () => {
  const gate = new TestGate();
  const path = `/" || true || "\n\\`;
  const { event } = await gate.decide(request({ path }));
  const { rule } = savedRule(event, asking(20));
  const policy = compilePolicy([{ ...rule, id: "x", layer: "profile", name: "x", priority: 19 } as Rule]);
  const hits = [event, request()].map((each) => policy.evaluate(each).decision.rule.id);
  assertEquals(hits, ["x", "allow-http"]);
});

Deno.test("a saved answer about a command over SSH covers that command for that user, and opens no other", () => {
  const command = (text: string, user = "deploy", kind = "exec") =>
    request({ method: "CONNECT", scheme: "ssh", port: 22, path: "", ssh: { kind, command: text, user } });
  const events = [
    command("uptime"),
    command("uptime; id"),
    command("uptime", "root"),
    command("uptime", "deploy", "subsystem"),
  ];
  assertEquals(decisions(asking(500), events), ["allow", "ask", "ask", "ask"]);
  const allow = (match: string) =>
    compilePolicy(parseRules(`[profiles.rules.a]\naction = "allow"\nmatch = '${match}'`, "f.toml"));
  const decided = (match: string) => allow(match).evaluate(events[0]).decision;
  // An allow of the host says nothing about commands.
  assertEquals(decided('http.request.host == "api.example.com"').rule.id, "block-ssh-command");
  assertEquals(decided("true").rule.id, "block-ssh-command");
  assertEquals(decided('http.request.scheme == "ssh"').rule.id, "block-ssh-command");
  assertEquals(decided('http.request.ssh.command == "uptime"').decision, "allow");
  // The remedy of a refusal is such a rule.
  const [, remedy] = /match = '(.*)'$/.exec(decided("false").remedy!)!;
  assertEquals(decided(remedy).decision, "allow");
});
