/** Connections that are relayed without inspection: their events, and rules that change on the way. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { RULES_FILE } from "../../helper/gate.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { type RawClient, rawUpstream } from "../../helper/net_client.ts";

const HOST = "api.example.com";
const OF_HOST = `http.request.host == "${HOST}"`;
const rule = (id: string, action: string, match: string, more = "") =>
  `[profiles.rules.${id}]\nname = "${id}"\naction = "${action}"\nmatch = '${match}'\n${more}\n`;
const set = (path: string, value: string) =>
  `rewrite = [{ op = "set", path = "http.request.${path}", value = ${value} }]`;
const THROUGH = rule("through", "rewrite", OF_HOST, set("scheme", '"tls"'));

/** Runs a guest's TLS handshake with an upstream that answers with `hello`. @returns the guest's error */
async function handshake(
  rules: string,
  changed: string | undefined,
): Promise<{ net: TestNet; error?: unknown; connections: number }> {
  let target = { hostname: "", port: 0 };
  const net = await TestNet.open({ rules, target: () => target });
  const upstream = rawUpstream(async (client) => void await client.rest(), await net.leaf(HOST));
  target = upstream.target;
  const preview = net.gate.preview.bind(net.gate);
  net.gate.preview = (draft) => {
    const verdict = preview(draft);
    if (changed !== undefined) net.gate.use(compilePolicy(parseRules(changed, RULES_FILE)), []);
    return verdict;
  };
  const forward = net.forward(443);
  const tcp = await Deno.connect({ hostname: "127.0.0.1", port: forward.port });
  const tls = await Deno.startTls(tcp, { hostname: HOST, caCerts: [net.roots] });
  const error = await tls.handshake().then(() => undefined, (error) => error);
  tls.close();
  forward.close();
  await net.idle();
  upstream.close();
  return { net, error, connections: upstream.conns.length };
}

Deno.test("TLS that a rule passes uninspected is decided once more when it is relayed", async (t) => {
  const cases: [name: string, changed: string | undefined, decision: string, error: string | undefined][] = [
    ["the rule stays", undefined, "allow", undefined],
    ["the host is blocked meanwhile", rule("no", "block", OF_HOST), "block", undefined],
    ["the rule is gone", "", "allow", "the rule that passed it uninspected has changed"],
  ];
  for (const [name, changed, decision, error] of cases) {
    await t.step(name, async () => {
      const run = await handshake(THROUGH, changed);
      await using net = run.net;
      assertEquals([run.error === undefined, run.connections], [
        changed === undefined,
        changed === undefined ? 1 : 0,
      ]);
      const [entry, ...more] = net.gate.entries;
      assertEquals([entry.decision!.decision, entry.outcome?.error, more.length], [decision, error, 0]);
      assertEquals(entry.event.http!.request.bytes, 0);
    });
  }
});

const RAW = rule("raw", "allow", `http.request.scheme == "tcp"`);

/** Relays a protocol other than HTTP. */
async function raw(
  { rules = "", ...options }: TestNetOptions,
  serve: (upstream: RawClient) => Promise<unknown>,
  run: (client: RawClient) => Promise<unknown>,
) {
  const upstream = rawUpstream(async (client) => void await serve(client));
  const asked: [string, number][] = [];
  await using net = await TestNet.open({
    rules: RAW + rules,
    nameOf: () => HOST,
    target: (host, port) => {
      asked.push([host, port]);
      return upstream.target;
    },
    ...options,
  });
  const client = await net.client(5432);
  await run(client);
  client.close();
  await net.idle();
  upstream.close();
  return { asked, ...net.gate.entries[0] };
}

Deno.test("the event of a relayed connection has the bytes of its upstream, and why it ended early", async (t) => {
  const cases: [name: string, answer: string, error: string | undefined][] = [
    ["an answer", "welcome", undefined],
    ["no answer", "", undefined],
  ];
  for (const [name, answer, error] of cases) {
    await t.step(name, async () => {
      const { outcome, event } = await raw({}, async (upstream) => {
        await upstream.take(6);
        await upstream.send(answer);
      }, async (client) => {
        await client.send("HELO x\r\n");
        assertEquals(await client.rest(), answer);
      });
      assertEquals([event.http!.request.host, event.http!.request.url], [HOST, `tcp://${HOST}:5432`]);
      assertEquals(outcome!.error, error);
      assertEquals(outcome!.response as unknown, {
        address: "127.0.0.1",
        body: { state: "missing", size: answer.length, truncated: answer !== "" },
        bytes: answer.length,
        headers: {},
        status: 200,
      });
    });
  }
  await t.step("it is idle", async () => {
    const { outcome } = await raw(
      { timeouts: { relay: 50 } },
      (upstream) => upstream.rest(),
      async (client) => {
        await client.send("HELO x\r\n");
        await client.rest();
      },
    );
    assertStringIncludes(outcome!.error!, "was idle for too long");
  });
  await t.step("nobody is there", async () => {
    const { outcome } = await raw(
      { target: () => ({ hostname: "127.0.0.1", port: 1 }) },
      (upstream) => upstream.rest(),
      async (client) => {
        await client.send("HELO x\r\n");
        assertEquals(await client.rest(), "");
      },
    );
    assertStringIncludes(outcome!.error!, `${HOST}:5432 (at 127.0.0.1:1) refused the connection`);
  });
});

Deno.test("a relayed connection goes to the address of the guest, unless a rule names another host or port", async () => {
  const lookups: string[] = [];
  for (
    const [rules, host, port] of [
      ["", HOST, 5432],
      [rule("move", "rewrite", OF_HOST, set("host", '"other.example.com"')), "other.example.com", 5432],
      [rule("move", "rewrite", OF_HOST, set("port", "5433")), HOST, 5433],
    ] as const
  ) {
    const { asked } = await raw({ rules }, (upstream) => upstream.take(6), async (client) => {
      await client.send("HELO x\r\n");
      await client.rest();
    });
    assertEquals(asked, [[host, port]]);
    if (rules === "") continue;
    // Without the test's address, one that is looked up.
    const { outcome } = await raw(
      {
        rules,
        target: () => undefined,
        timeouts: { connect: 1 },
        lookup: (name) => {
          lookups.push(name);
          return Promise.resolve(["127.0.0.1"]);
        },
      },
      (upstream) => upstream.rest(),
      async (client) => {
        await client.send("HELO x\r\n");
        await client.rest();
      },
    );
    assertStringIncludes(outcome!.error!, `(at 127.0.0.1:${port})`);
  }
  assertEquals(lookups, ["other.example.com", HOST]);
});
