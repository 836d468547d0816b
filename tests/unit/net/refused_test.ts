/** Requests that policy let go and a guard then kept back, from a real proxy, broker and ledger. */
import { assertEquals, assertMatch } from "@std/assert";
import { Ledger } from "../../../lib/ledger/ledger.ts";
import { type LedgerEvent, readEvents } from "../../../lib/ledger/read.ts";
import { added, type World, world } from "../../helper/credential.ts";
import type { GateEntry } from "../../helper/gate.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const OWNER = "api.anthropic.com";
const OTHER = "api.example.com";
const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** Sends one request a text through the proxy. @returns what the ledger gets */
async function requests({ open }: World, texts: [host: string, request: string][]): Promise<GateEntry[]> {
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

/** What readers of a ledger with these entries are shown. */
async function listed(entries: GateEntry[], denied: boolean): Promise<LedgerEvent[]> {
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
  "net: a request that a guard refused is shown as refused, one that lost a secret from its body is not",
  world(added, async (given) => {
    const { refs } = given;
    const body = `{"key":"${refs.github}"}`;
    const entries = await requests(given, [
      [OWNER, get(OWNER, `X-Api-Key: ${refs.anthropic}`)],
      [OTHER, get(OTHER, `X-Api-Key: ${refs.anthropic}`)],
      [OTHER, get(OTHER, `Authorization: Bearer credential:blake3:${"0".repeat(64)}`)],
      [OTHER, `POST /x HTTP/1.1\r\nHost: ${OTHER}\r\nContent-Length: ${body.length}\r\n\r\n${body}`],
    ]);
    assertEquals((await listed(entries, false)).map(({ decision, rule_id }) => [decision, rule_id]), [
      ["allow", "allow-http"],
      ["block", "guard-credential"],
      ["block", "guard-credential"],
      ["allow", "allow-http"],
    ]);
    const denied = await listed(entries, true);
    assertEquals(denied.length, 2);
    assertMatch(denied[0].outcome!.error!, /was not sent to api\.example\.com/);
  }),
);
