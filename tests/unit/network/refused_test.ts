/** Requests that policy allowed and a guard then refused, with a real proxy, broker and ledger. */
import { assertEquals, assertMatch } from "@std/assert";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { type LedgerEvent, readEvents } from "../../../lib/ledger/read/mod.ts";
import { added, type World, world } from "../../helper/credential.ts";
import type { GateEntry } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const OWNER = "api.anthropic.com";
const OTHER = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** Sends the requests through the proxy. @returns their entries */
async function sendAll({ open }: World, texts: [host: string, request: string][]): Promise<GateEntry[]> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ target: () => target, broker: await open() });
  for (const [host, request] of texts) {
    const upstream = fixedUpstream(OK, await net.leaf(host));
    target = upstream.target;
    const client = await net.tls(host);
    await client.ask(request);
    client.close();
    upstream.close();
  }
  return net.gate.entries;
}

/** Lists the events of a ledger with these entries. */
async function listEvents(entries: GateEntry[], denied: boolean): Promise<LedgerEvent[]> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/session.db`;
    await using ledger = await Ledger.open(path, { sessionId: "session" });
    for (const { event, decision } of entries) {
      ledger.append({ event, ...(decision && { decision }), findings: [] });
    }
    for (const { event, outcome } of entries) {
      if (outcome) ledger.end({ ...outcome, event_id: event.common.event_id });
    }
    await ledger.flush();
    return (await readEvents(path, { family: "http", denied })).events;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const get = (host: string, header: string) =>
  `GET /x HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${header}\r\n\r\n`;

Deno.test(
  "net: a request that a guard refused is listed as refused; one whose body lost a secret is not",
  world(added, async (fixture) => {
    const { refs } = fixture;
    const body = `{"key":"${refs.github}"}`;
    const entries = await sendAll(fixture, [
      [OWNER, get(OWNER, `X-Api-Key: ${refs.anthropic}`)],
      [OTHER, get(OTHER, `X-Api-Key: ${refs.anthropic}`)],
      [OTHER, get(OTHER, `Authorization: Bearer credential:blake3:${"0".repeat(64)}`)],
      [OTHER, `POST /x HTTP/1.1\r\nHost: ${OTHER}\r\nContent-Length: ${body.length}\r\n\r\n${body}`],
    ]);
    assertEquals((await listEvents(entries, false)).map(({ decision, rule_id }) => [decision, rule_id]), [
      ["allow", "allow-http"],
      ["block", "guard-credential"],
      ["block", "guard-credential"],
      ["allow", "allow-http"],
    ]);
    const denied = await listEvents(entries, true);
    assertEquals(denied.length, 2);
    assertMatch(denied[0].outcome!.error!, /was not sent to api\.example\.com/);
  }),
);
