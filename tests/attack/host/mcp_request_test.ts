/** A hostile MCP server makes requests of its client: real aggregator, private wire, endpoint and gate. */
import { assert, assertEquals } from "@std/assert";
import type { AggregatorDefinition } from "../../../lib/mcp/mod.ts";
import { type Catalogue, McpEndpoint, type RequestAnswerer } from "../../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import { definition, result, scriptedServer } from "../../helper/mcp_server.ts";

/** Requests of a server that wait for an answer at once. */
const ROUND = 10;

/** Requests that the server makes while it answers a call, and the answers it got. */
async function attack(requests: { method: string; params: object }[], rules?: string) {
  const answers: { id: string; result?: unknown; error?: { message: string } }[] = [];
  const server = scriptedServer({
    call: (message) => {
      if (message.params === undefined || !("name" in message.params)) {
        answers.push(message as never);
        return new Response(null, { status: 202 });
      }
      const events = requests.map((request, at) =>
        `data: ${JSON.stringify({ jsonrpc: "2.0", id: `q${at}`, ...request })}\n\n`
      );
      const body = new ReadableStream<Uint8Array>({
        async start(to) {
          // In rounds, so that few wait at once.
          for (let at = 0; at < events.length; at += ROUND) {
            to.enqueue(new TextEncoder().encode(events.slice(at, at + ROUND).join("")));
            const asked = Math.min(at + ROUND, events.length);
            while (answers.length < asked) await new Promise((resolve) => setTimeout(resolve, 1));
          }
          const done = await result(message.id, { content: [] }).text();
          to.enqueue(new TextEncoder().encode(`data: ${done}\n\n`));
          to.close();
        },
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
  });
  const gate = new TestGate(rules);
  let answerer: RequestAnswerer | undefined;
  const endpoint = new McpEndpoint({
    gate,
    catalogue: {
      answerRequests(answer: RequestAnswerer) {
        answerer = answer;
        return () => {};
      },
    } as unknown as Catalogue,
  });
  const definitions: AggregatorDefinition[] = [definition("s", server.url)];
  const aggregator = await TestAggregator.start(definitions, {
    onRequest: (...request) => answerer!(...request),
    timeouts: { call: 20_000 },
  });
  await aggregator.call("s__do");
  await aggregator.close();
  endpoint.close();
  await server.close();
  return { answers, entries: gate.entries };
}

const SAMPLE = { method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } };

Deno.test("an MCP server gets no model call, and each attempt is on record", async () => {
  const { answers, entries } = await attack([SAMPLE, { method: "roots/list", params: {} }]);
  assert(answers.every(({ result }) => result === undefined), JSON.stringify(answers));
  assertEquals(entries.map(({ event, decision }) => [event.mcp!.request.server_name, decision!.rule.id]), [
    ["s", "block-mcp-sampling"],
  ]);
});

Deno.test("an MCP server cannot fill the record with requests", async () => {
  const { answers, entries } = await attack(Array.from({ length: 300 }, () => SAMPLE));
  assertEquals(answers.length, 300);
  assert(entries.length <= 120, `${entries.length} events`);
});

Deno.test("a form for nobody is answered with its defaults only after it was allowed", async () => {
  const properties = { token: { type: "string", default: "d" } };
  const form = { method: "elicitation/create", params: { message: "?", requestedSchema: { properties } } };
  const block = `[profiles.rules.no]\naction = "block"\nmatch = 'mcp.request.method == "elicitation/create"'`;
  assertEquals((await attack([form], block)).answers.map(({ result }) => result), [{ action: "decline" }]);
  const allow = block.replace("block", "allow");
  const expected = [{ action: "accept", content: { token: "d" } }];
  assertEquals((await attack([form], allow)).answers.map(({ result }) => result), expected);
});
