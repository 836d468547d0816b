/** `sbx net`: requests that policy let go and a guard then kept back, from a real proxy, broker and ledger. */
import { assertEquals, assertMatch } from "@std/assert";
import { objectOf } from "../../cmd/sbx/event_row.ts";
import { requestPages, WITHHELD } from "../../cmd/sbx/net_requests.ts";
import { Client } from "../../lib/client/mod.ts";
import { REASON } from "../../lib/credential/grant.ts";
import type { EventFamily } from "../../lib/event/mod.ts";
import { Ledger } from "../../lib/ledger/ledger.ts";
import { readEvents } from "../../lib/ledger/read.ts";
import { added, type World, world } from "../helper/credential.ts";
import type { GateEntry } from "../helper/gate.ts";
import { TestNet } from "../helper/net.ts";
import { fixedUpstream } from "../helper/net_client.ts";

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

/** What is put into the ledger: an event, and how it ended. */
interface Keeping {
  keep(entry: GateEntry): void;
  end(entry: GateEntry): void;
  flush(): Promise<unknown>;
}

/** Runs with a client of an API that reads one ledger; its VM is there as long as `alive` says. */
async function withLedger(
  alive: () => boolean,
  run: (client: Client, ledger: Keeping) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/session.db`;
  const ledger = await Ledger.open(path, { sessionId: "session", onError: (error) => console.error(error) });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    const { pathname, searchParams: query } = new URL(request.url);
    if (pathname === "/vms/demo/status" || pathname === "/vms/id-1/status") {
      if (alive()) return Response.json({ id: "id-1" });
      return Response.json({ error: "no VM", code: "vm.not_found" }, { status: 404 });
    }
    return Response.json(
      await readEvents(path, {
        cursor: query.get("cursor") ?? undefined,
        limit: Number(query.get("limit")),
        family: (query.get("family") ?? undefined) as EventFamily | undefined,
        denied: query.get("denied") === "true",
      }),
    );
  });
  const keep = ({ event, decision }: GateEntry) => {
    ledger.append({ event, ...(decision && { decision }), findings: [] });
  };
  const end = ({ event, outcome }: GateEntry) => {
    if (outcome) ledger.end({ ...outcome, event_id: event.common.event_id });
  };
  try {
    await run(new Client(`http://127.0.0.1:${server.addr.port}`), { keep, end, flush: () => ledger.flush() });
  } finally {
    await server.shutdown();
    await ledger.close();
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
    await withLedger(() => true, async (client, { keep, end, flush }) => {
      entries.forEach(keep);
      entries.forEach(end);
      await flush();
      const shown = async (denied: boolean) =>
        (await Array.fromAsync(requestPages(client, "demo", { denied, follow: false }))).flat();
      assertEquals((await shown(false)).map(({ decision, rule_id }) => [decision, rule_id]), [
        ["allow", "allow-http"],
        ["block", "guard-credential"],
        ["block", "guard-credential"],
        ["allow", "allow-http"],
      ]);
      const denied = await shown(true);
      assertEquals(denied.length, 2);
      assertMatch((denied[0].outcome as { error: string }).error, /was not sent to api\.example\.com/);
      // What it is told apart by.
      assertEquals(WITHHELD, REASON.inBody);
      const guards = entries.filter(({ decision }) => decision?.rule.id === "guard-credential");
      assertEquals(guards.map(({ decision }) => decision!.rule.reason).at(-1), WITHHELD);
    });
  }),
);

Deno.test(
  "net --follow: a refusal that comes after its request is told; it ends when the VM is deleted",
  world(added, async (given) => {
    const { refs } = given;
    const entries = await requests(given, [[OTHER, get(OTHER, `X-Api-Key: ${refs.anthropic}`)]]);
    let alive = true;
    await withLedger(() => alive, async (client, { keep }) => {
      const [request, ...rest] = entries;
      keep(request);
      const seen: unknown[] = [];
      for await (const page of requestPages(client, "demo", { denied: false, follow: true })) {
        seen.push(...page.map(({ decision, outcome }) => [decision, objectOf(outcome).error]));
        if (page.length && seen.length === 1) rest.forEach(keep);
        alive = seen.length < 2;
      }
      assertEquals(seen, [["allow", undefined], ["block", REASON.wrongHost]]);
    });
  }),
);
