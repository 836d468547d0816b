/** Spellings in which an MCP server says the credential it got, so that it passes a search of raw bytes. */
import { Buffer } from "node:buffer";
import { assertEquals } from "@std/assert";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import { definition, result, type Script, scriptedServer } from "../../helper/mcp_server.ts";

const REF = `credential:blake3:${"ab".repeat(32)}`;
const SECRET = "tok-5ecret/0123456789";
const PART = "0123456789";

/** Every character as a JSON escape. */
const ESCAPED = Array.from(SECRET, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`).join(
  "",
);
const BLOB = Buffer.from(`{"token": "${ESCAPED}"}`).toString("base64");

const sse = (...events: string[]) =>
  new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
const json = (body: string, init: ResponseInit = {}) =>
  new Response(body, { headers: { "content-type": "application/json" }, ...init });
const content = `"content":[{"type":"text","text":"it is ${ESCAPED}"}]`;

/** Answers to a call, as JSON that is written by hand. */
const CALLS: [string, NonNullable<Script["call"]>][] = [
  ["text", ({ id }) => json(`{"jsonrpc":"2.0","id":${id},"result":{${content}}}`)],
  [
    "structured content",
    ({ id }) =>
      json(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"a":[{"b":"${ESCAPED}"}]}}}`,
      ),
  ],
  [
    "the name of a member",
    ({ id }) =>
      json(`{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"${ESCAPED}":1}}}`),
  ],
  [
    "a member that comes twice",
    ({ id }) => json(`{"jsonrpc":"2.0","id":${id},"result":{"content":[],"_meta":{"a":1,"a":"${ESCAPED}"}}}`),
  ],
  ["the text of a resource", ({ id }) =>
    json(
      `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"resource","resource":{"uri":"a:${ESCAPED}","text":"${ESCAPED}"}}]}}`,
    )],
  ["the blob of a resource", ({ id }) =>
    json(
      `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"${BLOB}"}}]}}`,
    )],
  ["an event", ({ id }) => sse(`data: {"jsonrpc":"2.0","id":${id},"result":{${content}}}\n\n`)],
  [
    "an event of several lines",
    ({ id }) => sse(`data:{"jsonrpc":"2.0","id":${id},\r`, `data:"result":{${content}}\r\ndata:}\n\r\n`),
  ],
  ["progress", ({ id, params }) =>
    sse(
      `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${
        JSON.stringify(params._meta?.progressToken ?? 0)
      },"progress":1,"message":"${ESCAPED}"}}\n\n`,
      `data: {"jsonrpc":"2.0","id":${id},"result":{${content}}}\n\n`,
    )],
  [
    "an error",
    ({ id }) => json(`{"jsonrpc":"2.0","id":${id},"error":{"code":-32000,"message":"${ESCAPED}"}}`),
  ],
  ["an HTTP error", () => json(`{"error":"${ESCAPED}"}`, { status: 500 })],
  ["an HTTP error as text", () => new Response(`no ${SECRET}`, { status: 403 })],
  [
    "a content type",
    ({ id }) => json(`{"jsonrpc":"2.0","id":${id}}`, { headers: { "content-type": SECRET } }),
  ],
];

for (const [where, call] of CALLS) {
  Deno.test(`a secret in ${where} of an MCP server does not reach the guest`, async () => {
    const seen = await attack({ call });
    assertEquals(revealed(seen), [], JSON.stringify(seen));
  });
}

Deno.test("a secret in lists and notifications of an MCP server does not reach the guest", async () => {
  const tool =
    `{"name":"do","description":"${ESCAPED}","inputSchema":{"type":"object","title":"${ESCAPED}"}}`;
  const seen = await attack({
    initialize: async (request) =>
      json(
        `{"jsonrpc":"2.0","id":${
          (await request.clone().json()).id
        },"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"${ESCAPED}","version":"1"}}}`,
      ),
    list: () => ({ tools: [JSON.parse(tool)] }),
    call: ({ id }) => result(id, { content: [] }),
    stream: () =>
      sse(`data: {"jsonrpc":"2.0","method":"notifications/${ESCAPED}"}\n\n`, `data: {${ESCAPED}\n\n`),
  });
  assertEquals(revealed(seen), [], JSON.stringify(seen));
});

Deno.test("a secret sent to one MCP server and said by another does not reach the guest", async () => {
  const seen = await attack({}, { call: CALLS[0][1] });
  assertEquals(revealed(seen), [], JSON.stringify(seen));
});

/** Everything that the aggregator passed on from a server with a credential, and from one beside it. */
async function attack(script: Script, other: Script = {}) {
  const [server, friend] = [scriptedServer(script), scriptedServer(other)];
  const auth = { kind: "bearer" as const, credential_ref: REF };
  const aggregator = await TestAggregator.start(
    [definition("s", server.url, { auth }), definition("o", friend.url)],
    { resolve: () => Promise.resolve(SECRET) },
  );
  const answers = [
    await aggregator.request("list_servers"),
    await aggregator.request("list_tools"),
    await aggregator.call("s__do"),
    await aggregator.call("o__do"),
    await aggregator.request("list_servers"),
  ];
  await aggregator.close();
  await Promise.all([server.close(), friend.close()]);
  return [...answers, aggregator.progress, aggregator.log];
}

/** Texts with the secret, or half of it, also within base64. */
function revealed(value: unknown): string[] {
  if (typeof value === "string") {
    const decoded = Buffer.from(value, "base64").toString("latin1");
    const texts = [value, decoded].flatMap((text) => [text, text.replaceAll(/\\u00(..)/g, unescape)]);
    return texts.some((text) => text.includes(PART)) ? [value] : [];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, member]) => [...revealed(name), ...revealed(member)]);
}

function unescape(_: string, hex: string): string {
  return String.fromCharCode(parseInt(hex, 16));
}
