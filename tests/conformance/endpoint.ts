/**
 * The guest's MCP endpoint over Streamable HTTP, the only transport of the conformance suite. Each HTTP
 * session is a program of a guest, with the guest's own bridge (sbx-mcp-server) and a socket before the
 * endpoint. HTTP itself is the SDK's and not under test. Prints its URL and serves until it is killed.
 */
// @ts-types="@modelcontextprotocol/sdk/server/webStandardStreamableHttp"
import { WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js";
import { requireLocalHost, requireLocalOrigin } from "../../lib/client/gateway/mod.ts";
import { TestGate } from "../helper/gate.ts";
import { SdkCatalogue } from "../helper/mcp_endpoint_catalogue.ts";
import { GuestSide, GuestTransport } from "../helper/mcp_endpoint_guest.ts";
import { fixtureServer } from "./fixture.ts";
import type { Parsed } from "../helper/json.ts";

type Session = WebStandardStreamableHTTPServerTransport;

const catalogue = await SdkCatalogue.of(fixtureServer());
// Requests of servers need a rule, or a person; the suite has neither.
const RULES = `
[profiles.rules.answer]
action = "allow"
match = 'mcp.request.method == "elicitation/create" || mcp.request.method == "sampling/createMessage"'
`;
const guest = new GuestSide({ gate: new TestGate(RULES), catalogue });
const sessions = new Map<string, Session>();

const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
  try {
    requireLocalHost(request.headers.get("host"), new URL(request.url).host);
    requireLocalOrigin(request.headers.get("origin"));
  } catch (error) {
    return new Response((error as Error).message, { status: 403 });
  }
  const id = request.headers.get("mcp-session-id");
  const session = id === null ? await open() : sessions.get(id);
  return session ? await session.handleRequest(request) : new Response("no such session", { status: 404 });
});
console.log(`http://127.0.0.1:${server.addr.port}/mcp`);

async function open(): Promise<Session> {
  const far = new GuestTransport(await guest.connect());
  const near: Session = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => crypto.randomUUID(),
    onsessioninitialized: (id) => void sessions.set(id, near),
  });
  /** Request ids by progress token: over HTTP a notification is sent on the stream of its request. */
  const byToken = new Map<unknown, string | number>();
  let latest: string | number | undefined;
  near.onmessage = (message: Parsed) => {
    if (message.method !== undefined && message.id !== undefined) latest = message.id;
    const token = message.params?._meta?.progressToken;
    if (token !== undefined) byToken.set(token, message.id);
    far.send(message);
  };
  far.onmessage = (message: Parsed) => {
    const related = byToken.get(message.params?.progressToken) ?? latest;
    // The stream of an earlier request has ended, and so may have the session of a client that only left.
    near.send(message, message.method === undefined ? undefined : { relatedRequestId: related }).catch(
      () => {},
    );
  };
  near.onclose = () => void far.close();
  await far.start();
  await near.start();
  return near;
}
