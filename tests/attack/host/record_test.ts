/**
 * Secrets in parts of an event that decisions need as they are: rules see them, and
 * nothing that is kept or told does.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { processOf } from "../../../lib/event/mod.ts";
import type { Draft, Passage } from "../../../lib/policy/mod.ts";
import { added, KEY, world } from "../../helper/credential.ts";
import { httpRequest, processExec } from "../../helper/event.ts";
import { ANY, type GateFixture, rule, withGate } from "../../helper/session_gate.ts";

/** As a host carries it. */
const HOST = `${KEY.github.toLowerCase()}.example.com`;
/** Cut into labels, as names carry a longer one. */
const LABELS = KEY.openai.toLowerCase().replaceAll(/.{20}(?=.)/g, "$&.");

function http(request: Parameters<typeof httpRequest>[0], common: Partial<Draft["common"]> = {}): Draft {
  return {
    common: { event_type: "http.request", source_engine: "network", ...common },
    http: { request: httpRequest(request) },
  };
}

function exec(argv: string[]): Draft {
  return {
    common: { event_type: "process.exec", source_engine: "process" },
    process: { activity: processExec({ executable: "sh", command: argv.join(" "), argv }) },
  };
}

const CALL = { method: "tools/call", server_name: "files", tool_name: "t", namespaced_tool_name: "files__t" };

/** Events with a secret, by the place of the secret. */
const EVENTS: Record<string, Draft> = {
  host: http({ host: HOST, headers: { host: [HOST] } }),
  "host in labels": http({ host: `${LABELS}.example.com` }),
  "host and path": http({ host: KEY.mcp.split("/")[0], path: `/${KEY.mcp.split("/")[1]}` }),
  method: http({ method: KEY.github }),
  "name of a header": http({ headers: { [KEY.github.toLowerCase()]: ["1"] } }),
  "name of a program": http({}, { process: processOf(`curl ${KEY.anthropic}`) }),
  label: http({}, { labels: { dropped_headers: KEY.anthropic } }),
  "name of a lookup": {
    common: { event_type: "dns.query", source_engine: "network", process: processOf(KEY.google) },
    dns: { request: { qname: `${LABELS}.example.com`, qtype: "TXT", transport: "udp" } },
  },
  model: {
    common: { event_type: "model.call", source_engine: "model" },
    model: {
      request: {
        provider: "anthropic",
        api_family: "anthropic.messages",
        model: KEY.anthropic,
        stream: false,
        operation: KEY.github,
        messages_count: 1,
        tools_count: 0,
        body: { state: "text", text: "hello", content_type: KEY.github, truncated: false },
      },
    },
  },
  "name of a tool": {
    common: { event_type: "mcp.tool_call", source_engine: "mcp" },
    mcp: {
      request: { ...CALL, tool_name: KEY.mcp, namespaced_tool_name: `files__${KEY.mcp}`, arguments: {} },
    },
  },
  "end of a long command": exec(["sh", "-c", `echo ${"x".repeat(220)} ${KEY.anthropic}`]),
  "two arguments after a long one": exec([
    "x".repeat(120),
    KEY.anthropic.slice(0, 50),
    KEY.anthropic.slice(50),
    "y".repeat(200),
  ]),
};

/** Rules of one action, which decide on every event by its true values. */
const rules = (action: string) =>
  rule("profiles", "host", action, `http.request.host == "${HOST}"`) +
  rule(
    "profiles",
    "process",
    action,
    `process.activity.argv.size() > 1 && process.activity.command.size() > 1`,
  ) +
  rule("profiles", "any", action, ANY, "priority = 100");

/**
 * Fails if a text that was kept or told has a secret or most of one, also in other case or cut into labels.
 */
function assertClean(text: string, place: string): void {
  const plain = text.toLowerCase().replaceAll(".", "");
  for (const secret of Object.values(KEY)) {
    // The first characters of a provider's secrets are no secret.
    const part = secret.slice(8, -8).toLowerCase().replaceAll(".", "");
    for (const half of [part, part.slice(0, part.length / 2), part.slice(part.length / 2)]) {
      assert(!plain.includes(half), `${half} (${place})`);
    }
  }
}

async function keptOf({ path, notices, close }: GateFixture, told: unknown[]): Promise<string> {
  await close();
  return new TextDecoder("latin1").decode(await Deno.readFile(path)) + JSON.stringify([notices, told]);
}

for (const action of ["allow", "ask", "block"]) {
  Deno.test(
    `${action}: rules see secrets in hosts, methods and names, and nothing that is kept or told does`,
    world(added, async ({ open }) => {
      const broker = await open();
      for (const [place, draft] of Object.entries(EVENTS)) {
        await withGate(
          rules(action),
          async (fixture) => {
            const { gate, ledger } = fixture;
            const deciding = gate.decide(structuredClone(draft));
            for (const { ask_id } of gate.asks.pending()) {
              gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
            }
            const passage: Passage = await deciding;
            assertEquals(passage.allowed, action !== "block", place);
            const family = Object.keys(draft).find((key) => key !== "common") as "http";
            assertEquals(passage.event[family], draft[family], "the effect has the true values");
            if (place === "host") assertEquals(passage.decision.rule.id, "host");
            if (passage.allowed) passage.finish({ error: `cannot connect to ${HOST}: ${KEY.anthropic}` });
            const refusal = { id: "guard-test", reason: `the name ${HOST} is not that of ${KEY.anthropic}` };
            const refused = gate.refuse(structuredClone(draft), refusal);
            gate.observe(structuredClone(draft), { error: `cannot connect to ${HOST}` });
            await ledger.flush();
            assertClean(await keptOf(fixture, [passage.decision, refused]), place);
          },
          undefined,
          (value) => broker.scrubValue(value),
        );
      }
    }),
  );
}

Deno.test(
  "the record of a request keeps what is no secret, and the ref of what is",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    await withGate(
      rules("allow"),
      async ({ gate, notices }) => {
        const body = { state: "text", text: "plain", size: 5, truncated: false } as const;
        await gate.decide(http({ host: HOST, path: "/a", query: "b=1", body, headers: { accept: ["*/*"] } }));
        const [told] = notices.flatMap(({ type, payload }) =>
          type === "security-event" ? [payload.event] : []
        );
        const { host, url, path, query, headers, body: kept } = told.http!.request;
        assertEquals(host, `${refs.github}.example.com`);
        assertStringIncludes(url, refs.github);
        assertEquals([path, query, headers, kept], ["/a", "b=1", { accept: ["*/*"] }, body]);
      },
      undefined,
      (value) => broker.scrubValue(value),
    );
  }),
);

Deno.test(
  "an answer for the session covers one secret host, not all that look alike in the record",
  world([], async ({ open }) => {
    const broker = await open();
    const token = (digit: string) => `ghp_${digit.repeat(36)}.example.com`;
    await withGate(
      rules("ask"),
      async ({ gate }) => {
        const first = gate.decide(http({ host: token("1") }));
        const [{ ask_id, covers }] = gate.asks.pending();
        assertEquals(covers, "GET https://[redacted].example.com:443/, with any query, headers and body");
        gate.asks.resolve(ask_id, { decision: "allow", scope: "session" });
        assertEquals((await first).allowed, true);
        assertEquals((await gate.decide(http({ host: token("1") }))).allowed, true);
        assertEquals(gate.asks.pending().length, 0);
        const other = gate.decide(http({ host: token("2") }));
        assertEquals(gate.asks.pending().length, 1);
        gate.asks.close();
        assertEquals((await other).allowed, false);
      },
      undefined,
      (value) => broker.scrubValue(value),
    );
  }),
);
