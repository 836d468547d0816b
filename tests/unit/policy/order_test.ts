/** Trust order, priorities and ties (docs/design/contracts/05-policy.md §5), and the defaults. */
import { assertEquals } from "@std/assert";
import { completeEvent } from "../../../lib/policy/author/mod.ts";
import { compilePolicy, type Rule } from "../../../lib/policy/mod.ts";
import { decided, HOST, http, rule } from "../../helper/policy.ts";

/** Rules with the expected decision and deciding rule (docs/design/contracts/05-policy.md §5). */
const ORDER: [title: string, rules: Rule[], decision: string, decider: string][] = [
  ["the defaults allow without rules", [], "allow", "default:allow-http"],
  ["a profile allow", [rule("profile", "a", "allow", HOST)], "allow", "profile:a"],
  ["a profile block", [rule("profile", "a", "block", HOST)], "block", "profile:a"],
  [
    "a rule that does not match",
    [rule("profile", "a", "block", `http.request.host == "x"`)],
    "allow",
    "default:allow-http",
  ],
  [
    "a disabled rule",
    [rule("profile", "a", "block", HOST, { enabled: false })],
    "allow",
    "default:allow-http",
  ],
  [
    "corp before profile",
    [rule("profile", "a", "allow", HOST), rule("corp", "b", "block", HOST)],
    "block",
    "corp:b",
  ],
  [
    "corp allow before profile block",
    [rule("profile", "a", "block", HOST), rule("corp", "b", "allow", HOST)],
    "allow",
    "corp:b",
  ],
  [
    "lower priority first",
    [
      rule("profile", "a", "block", HOST, { priority: 20 }),
      rule("profile", "b", "allow", HOST, { priority: 15 }),
    ],
    "allow",
    "profile:b",
  ],
  [
    "corp by priority",
    [
      rule("corp", "a", "block", HOST, { priority: -20 }),
      rule("corp", "b", "allow", HOST, { priority: -30 }),
    ],
    "allow",
    "corp:b",
  ],
  [
    "tie: block before ask",
    [rule("profile", "a", "ask", HOST), rule("profile", "b", "block", HOST)],
    "block",
    "profile:b",
  ],
  [
    "tie: block before allow",
    [rule("profile", "a", "allow", HOST), rule("profile", "b", "block", HOST)],
    "block",
    "profile:b",
  ],
  [
    "tie: ask before allow",
    [rule("profile", "a", "allow", HOST), rule("profile", "b", "ask", HOST)],
    "ask",
    "profile:b",
  ],
  [
    "tie: ask before rewrite",
    [
      rule("profile", "a", "rewrite", HOST, {
        rewrite: [{ op: "set", path: "http.request.host", value: "x" }],
      }),
      rule("profile", "b", "ask", HOST),
    ],
    "ask",
    "profile:b",
  ],
  [
    "tie: rewrite before allow",
    [
      rule("profile", "a", "allow", HOST),
      rule("profile", "b", "rewrite", HOST, {
        rewrite: [{ op: "set", path: "http.request.host", value: "10.0.0.1" }],
      }),
    ],
    // The rewrite comes first, and a default blocks the rewritten event.
    "block",
    "default:block-private-http",
  ],
  [
    "tie of all four",
    [
      rule("profile", "a", "allow", HOST),
      rule("profile", "b", "rewrite", HOST, { rewrite: [{ op: "strip_header", path: "x-none" }] }),
      rule("profile", "c", "ask", HOST),
      rule("profile", "d", "block", HOST),
    ],
    "block",
    "profile:d",
  ],
  [
    "a lower priority before a more restrictive action",
    [
      rule("profile", "a", "block", HOST, { priority: 11 }),
      rule("profile", "b", "allow", HOST, { priority: 10 }),
    ],
    "allow",
    "profile:b",
  ],
  [
    "the ends of the range",
    [
      rule("corp", "a", "allow", HOST, { priority: -1000 }),
      rule("corp", "b", "block", HOST, { priority: -999 }),
      rule("profile", "c", "block", HOST, { priority: 1000 }),
    ],
    "allow",
    "corp:a",
  ],
  [
    "the least trusted corp rule before the first profile rule",
    [
      rule("profile", "a", "block", HOST, { priority: 10 }),
      rule("corp", "b", "ask", HOST, { priority: -10 }),
    ],
    "ask",
    "corp:b",
  ],
  [
    "ids compare as text",
    [rule("profile", "r10", "block", HOST), rule("profile", "r9", "block", HOST)],
    "block",
    "profile:r10",
  ],
  [
    "tie of the same action: the id",
    [rule("profile", "b", "block", HOST), rule("profile", "a", "block", HOST)],
    "block",
    "profile:a",
  ],
  [
    "default rules come last whatever their priority",
    [
      rule("default", "d", "block", HOST, { priority: -1000 }),
      rule("profile", "a", "allow", HOST, { priority: 1000 }),
    ],
    "allow",
    "profile:a",
  ],
  [
    "a default rule before the built-in ones by priority",
    [rule("default", "d", "block", HOST, { priority: -1 })],
    "block",
    "default:d",
  ],
  [
    "a default rule replaces the built-in one of its id",
    [rule("default", "allow-http", "ask", "has(http.request)")],
    "ask",
    "default:allow-http",
  ],
  [
    "a disabled replacement of a default leaves no rule: blocked",
    [rule("default", "allow-http", "allow", "true", { enabled: false })],
    "block",
    "none:none",
  ],
];
for (const [title, rules, decision, decider] of ORDER) {
  Deno.test(`order: ${title}`, () => {
    for (const order of [rules, rules.toReversed()]) {
      assertEquals(decided(compilePolicy(order), http()), [decision, decider]);
    }
  });
}

Deno.test("defaults allow every type of the six families", () => {
  const policy = compilePolicy([]);
  for (
    const type of [
      "http.request",
      "dns.query",
      "mcp.tool_call",
      "mcp.tool_list",
      "mcp.event",
      "model.call",
      "file.activity",
      "process.exec",
      "process.exit",
    ] as const
  ) {
    assertEquals(
      policy.evaluate(completeEvent({ schema_version: 1, common: { event_type: type } })).decision.decision,
      "allow",
      type,
    );
  }
});

const PRIVATE = [
  "10.0.0.1",
  "172.16.0.1",
  "192.168.1.1",
  "127.0.0.1",
  "127.1",
  "0",
  "0.0.0.0",
  "2130706433",
  "0x7f000001",
  "0x7f.1",
  "0177.0.0.1",
  "017700000001",
  "127.0.0.1.",
  "169.254.169.254",
  "0xa9fea9fe",
  "2852039166",
  "0251.0376.0251.0376",
  "100.100.100.200",
  "192.0.0.192",
  "localhost",
  "LOCALHOST.",
  "a.localhost",
  "metadata.google.internal",
  "::1",
  "[::1]",
  "::",
  "0:0:0:0:0:0:0:1",
  "::ffff:127.0.0.1",
  "[::ffff:7f00:1]",
  "::ffff:0:10.0.0.1",
  "::127.0.0.1",
  "64:ff9b::10.0.0.1",
  "2002:7f00:1::",
  "fc00::1",
  "fd00:ec2::254",
  "fe80::1%eth0",
  "fe80::1",
  "１２７.０.０.１",
  "127。0。0。1",
  "①②⑦.⓪.⓪.①",
  "255.255.255.255",
  "224.0.0.1",
];
const PUBLIC = [
  "8.8.8.8",
  "1.1.1.1",
  "11.0.0.1",
  "172.32.0.1",
  "172.15.0.1",
  "192.169.0.1",
  "100.128.0.1",
  "169.253.0.1",
  "134744072",
  "0x08080808",
  "2606:4700::1111",
  "::ffff:8.8.8.8",
  "64:ff9b::8.8.8.8",
  "2002:808:808::",
  "example.com",
  "10.example.com",
  "10.0.0.1.example.com",
  "localhost.example.com",
  "mylocalhost",
  "256.1.1.1",
  "1.2.3.4.5",
  "0x7g.1",
  "fe80.example",
  "cafe.babe",
];
for (const host of PRIVATE) {
  Deno.test(`defaults block http to ${host}, and DNS answers with it`, () => {
    const policy = compilePolicy([]);
    assertEquals(decided(policy, http({ host })), ["block", "default:block-private-http"]);
    const dns = completeEvent({
      schema_version: 1,
      common: { event_type: "dns.query" },
      dns: {
        request: { qname: "x.example", qtype: "A", transport: "udp" },
        response: { rcode: "NOERROR", answers: ["8.8.8.8", host] },
      },
    });
    assertEquals(decided(policy, dns), ["block", "default:block-private-dns"]);
  });
}
Deno.test("defaults allow public addresses and names", () => {
  for (const host of PUBLIC) {
    assertEquals(decided(compilePolicy([]), http({ host })), ["allow", "default:allow-http"], host);
  }
});
