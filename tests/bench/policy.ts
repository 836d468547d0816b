/**
 * Cost of a decision over mixed rules, beside a plain loop over the same CEL programs in the same run.
 * Prints one JSON object.
 */
import type { Event } from "../../lib/event/mod.ts";
import { FlatEvent } from "../../lib/policy/engine/field.ts";
import { compilePolicy, type Rule } from "../../lib/policy/mod.ts";
import { httpRequest, processExec } from "../helper/event.ts";

const EVENTS = 20_000;
const FLOOR_EVENTS = 400;

/** Rules of every family and of every kind of test, in the shares that large rule sets have. */
function mixedRules(count: number): Rule[] {
  return Array.from({ length: count }, (_, at): Rule => {
    const layer = at % 5 === 0 ? "corp" : "profile";
    return {
      id: `rule-${at}`,
      layer,
      name: `rule ${at}`,
      action: (["allow", "block", "allow", "ask"] as const)[at % 4],
      match: KINDS[at % KINDS.length](at),
      enabled: true,
      priority: layer === "corp" ? -10 - at % 50 : 10 + at % 50,
      ...(at % 40 === 0 && { detection_level: "low" }),
    };
  });
}

const KINDS: ((at: number) => string)[] = [
  (at) => `http.request.host == "host${at}.example.com"`,
  (at) => `http.request.host == "api${at}.example.net" && http.request.method in ["POST", "PUT", "DELETE"]`,
  (at) => `http.request.host.endsWith(".tenant${at}.example.org") && http.request.port == 443`,
  (at) => `in_domain(http.request.host, "domain${at}.test") && !http.request.path.startsWith("/public")`,
  (at) => `dns.request.qname == "name${at}.example.com" || dns.request.qname == "alias${at}.example.com"`,
  (at) => `dns.request.qname.endsWith(".zone${at}.example")`,
  (at) => `mcp.request.namespaced_tool_name == "server${at}__write" && has(mcp.request.arguments.path)`,
  (at) => `mcp.request.server_name == "server${at}" && mcp.request.arguments.path.startsWith("/etc")`,
  (at) => `model.request.model == "model-${at}" && model.request.messages_count > 10`,
  (at) => `file.activity.path.startsWith("/workspace/project${at}/") && file.activity.operation == "write"`,
  (at) => `file.activity.path in ["/etc/conf${at}", "/etc/other${at}", "/etc/third${at}"]`,
  (at) => `process.activity.executable == "/usr/bin/tool${at}"`,
  (at) =>
    `process.activity.executable == "/usr/bin/cmd${at}" && process.activity.argv.exists(a, a == "--force")`,
  (at) => `http.request.path.contains("/secret-${at}/") && http.request.method == "GET"`,
  (at) => `http.request.host.matches("^svc${at}-[a-z0-9]+\\\\.internal\\\\.example$")`,
  (at) => `common.process.executable == "/opt/agent${at}/bin" && http.request.bytes > 1000000`,
];

/** The number nearest to n that a rule of that kind has. */
const kind = (n: number, which: number) => n - n % KINDS.length + which;

/** Events of which half meet a rule of their kind, and half no rule but the defaults. */
function mixedEvents(count: number, rules: number): Event[] {
  let seed = 42;
  const random = (below: number) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  return Array.from({ length: count }, (_, at) => {
    // Half of the events carry the number of a rule that there is.
    const n = random(rules);
    return event(at, random(2) === 0 ? n : rules + n);
  });
}

function event(at: number, n: number): Event {
  const family = at % 4;
  const common = (event_type: Event["common"]["event_type"]): Event["common"] => ({
    event_id: at.toString(16).padStart(12, "0"),
    event_type,
    session_id: "session",
    vm_id: "vm",
    profile_id: "code",
    profile_revision: "1.0.0",
    timestamp_unix_ms: 1_700_000_000_000 + at,
    sequence: 0,
    source_engine: "network",
    enforceability: "inline_blockable",
    actor: "vm",
    process: { pid: 1, ppid: 1, executable: "/usr/bin/node", command: "node x.js", cwd: "/root" },
    labels: {},
  });
  if (family === 0) {
    const host = [
      `host${n}.example.com`,
      `api${n}.example.net`,
      `a.tenant${n}.example.org`,
      `svc${n}-a1.internal.example`,
    ][n % 4];
    const path = `/v1/items/${n}`;
    return {
      schema_version: 1,
      common: common("http.request"),
      http: {
        request: httpRequest({
          method: n % 3 ? "GET" : "POST",
          host,
          path,
          bytes: 120,
          headers: { "content-type": ["application/json"] },
        }),
      },
    };
  }
  if (family === 1) {
    const qname = n % 2 ? `name${kind(n, 4)}.example.com` : `www.zone${kind(n, 5)}.example`;
    return {
      schema_version: 1,
      common: common("dns.query"),
      dns: { request: { qname, qtype: "A", transport: "udp" } },
    };
  }
  if (family === 2) {
    const path = n % 2 ? `/workspace/project${kind(n, 9)}/src/main.ts` : `/etc/conf${kind(n, 10)}`;
    return {
      schema_version: 1,
      common: common("file.activity"),
      file: {
        activity: {
          operation: "write",
          path,
          path_class: "workspace",
          name: "main.ts",
          ext: "ts",
          byte_count: 10,
        },
      },
    };
  }
  const executable = n % 2 ? `/usr/bin/tool${kind(n, 11)}` : `/usr/bin/cmd${kind(n, 12)}`;
  return {
    schema_version: 1,
    common: common("process.exec"),
    process: {
      activity: processExec({ executable, argv: [executable, "--force"] }),
    },
  };
}

/** Microseconds of each decision, sorted. */
function measure(
  rules: number,
): { p50: number; p99: number; mean: number; compileMs: number; evaluated: number } {
  const started = performance.now();
  const policy = compilePolicy(mixedRules(rules));
  const compileMs = performance.now() - started;
  const events = mixedEvents(EVENTS, rules);
  let evaluated = 0;
  for (const each of events) policy.evaluate(each);
  const times = events.map((each) => {
    const from = performance.now();
    const { decision } = policy.evaluate(each);
    const took = performance.now() - from;
    evaluated += decision.evaluated;
    return took * 1000;
  });
  const mean = times.reduce((sum, time) => sum + time, 0) / times.length;
  times.sort((a, b) => a - b);
  const at = (part: number) => times[Math.floor(times.length * part)];
  return { p50: at(0.5), p99: at(0.99), mean, compileMs, evaluated: evaluated / events.length };
}

/** The same programs one after the other until one decides: what an engine without an index does. */
function plainLoop(rules: number): number {
  const policy = compilePolicy(mixedRules(rules));
  const loop = (each: Event) => {
    const flat = new FlatEvent(each);
    for (const { program, rule } of policy.rules) {
      if (program(flat) === true && rule.action !== "rewrite") return;
    }
  };
  const events = mixedEvents(FLOOR_EVENTS, rules);
  for (const each of events) loop(each);
  const from = performance.now();
  for (const each of events) loop(each);
  return (performance.now() - from) * 1000 / events.length;
}

/** Microseconds of a rule on a header that no event has. */
function absentKey(rules = 100): number {
  const policy = compilePolicy(Array.from({ length: rules }, (_, at): Rule => ({
    ...mixedRules(1)[0],
    id: `header-${at}`,
    match: `http.request.headers["x-${at}"][0] == "v"`,
  })));
  const events = mixedEvents(FLOOR_EVENTS, rules).filter(({ http }) => http !== undefined);
  for (const each of events) policy.evaluate(each);
  const from = performance.now();
  let evaluated = 0;
  for (const each of events) evaluated += policy.evaluate(each).decision.evaluated;
  return (performance.now() - from) * 1000 / evaluated;
}

const small = measure(100);
const medium = measure(1000);
const large = measure(5000);
const floor = plainLoop(1000);
const round = (value: number) => Math.round(value * 100) / 100;
console.log(JSON.stringify({
  bench: "policy",
  rules: 1000,
  p50_us: round(medium.p50),
  p99_us: round(medium.p99),
  mean_us: round(medium.mean),
  evaluated_mean: round(medium.evaluated),
  compile_ms: round(medium.compileMs),
  plain_loop_mean_us: round(floor),
  ratio: round(floor / medium.mean),
  growth_100_to_5000: round(large.mean / small.mean),
  mean_us_100: round(small.mean),
  mean_us_5000: round(large.mean),
  p99_us_5000: round(large.p99),
  absent_key_us: round(absentKey()),
}));
