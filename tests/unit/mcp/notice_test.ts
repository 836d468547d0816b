/** Templates, completions, subscriptions and log messages of real servers, through the aggregator. */
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import { type McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  type ServerRequest,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { assertEquals, assertMatch } from "@std/assert";
import { z } from "zod";
import { TestAggregator } from "../../helper/mcp_aggregator.ts";
import { definition, scriptedServer, sdkServer } from "../../helper/mcp_server.ts";
import { eventually } from "../../helper/sbx.ts";

Deno.test("mcp: templates are listed, their arguments completed, updates and log messages passed on", async () => {
  const sessions: McpServer[] = [];
  const subscribed: string[] = [];
  const server = sdkServer((session) => {
    sessions.push(session);
    session.server.registerCapabilities({ resources: { subscribe: true }, logging: {} });
    const complete = { city: (value: string) => ["paris", "park"].filter((word) => word.startsWith(value)) };
    const template = new ResourceTemplate("city://{city}", { list: undefined, complete });
    session.registerResource("city", template, { description: "a city" }, (uri) => ({
      contents: [{ uri: uri.href, text: "a city" }],
    }));
    session.registerTool("log", {}, async ({ sendNotification }) => {
      for (const data of ["short", "x".repeat(20_000)]) {
        await sendNotification({ method: "notifications/message", params: { level: "info", data } });
      }
      for (const uri of ["city://paris", "city://other"]) {
        await sendNotification({ method: "notifications/resources/updated", params: { uri } });
      }
      return { content: [] };
    });
    session.server.setRequestHandler(SubscribeRequestSchema, ({ params: { uri } }) => {
      subscribed.push(`+${uri}`);
      return {};
    });
    session.server.setRequestHandler(UnsubscribeRequestSchema, ({ params: { uri } }) => {
      subscribed.push(`-${uri}`);
      return {};
    });
  });
  const plain = scriptedServer({});
  const aggregator = await TestAggregator.start([definition("s", server.url), definition("p", plain.url)]);
  const { templates } = await aggregator.request("list_templates", { cursor: 0 });
  assertEquals(templates, [{
    namespaced_uri_template: "sbx://s/city://{city}",
    original_uri_template: "city://{city}",
    name: "city",
    description: "a city",
    server_name: "s",
  }]);
  const completion = await aggregator.request("complete", {
    ref: { type: "ref/resource", name: "sbx://s/city://{city}" },
    argument: { name: "city", value: "par" },
  });
  assertEquals(completion.result.completion.values, ["paris", "park"]);
  const uri = "sbx://s/city://paris";
  assertEquals((await aggregator.request("subscribe", { uri })).result, {});
  await aggregator.call("s__log");
  await eventually("the notices arrive", () => aggregator.notices.length === 2);
  assertEquals(aggregator.notices, [
    { server: "s", method: "notifications/message", params: { level: "info", data: "short" } },
    { server: "s", method: "notifications/resources/updated", params: { uri } },
  ]);
  assertEquals((await aggregator.request("unsubscribe", { uri })).result, {});
  await aggregator.call("s__log");
  await eventually("the log message arrives", () => aggregator.notices.length === 3);
  assertEquals(subscribed, ["+city://paris", "-city://paris"]);
  assertMatch((await aggregator.request("subscribe", { uri: "sbx://none/a" })).error, /unknown server/);
  await aggregator.close();
  await Promise.all([server.close(), plain.close()]);
});

Deno.test("mcp: requests of servers are answered by the parent, refused without one, and withdrawn", async () => {
  const server = sdkServer((session) => {
    const ask = (name: string, method: string, options: object = {}) =>
      session.registerTool(name, {}, async ({ sendRequest }) => {
        const params = { message: "which?", requestedSchema: { type: "object", properties: {} } };
        const answer = await sendRequest({ method, params } as ServerRequest, z.looseObject({}), options)
          .catch((error: Error) => ({ error: error.message }));
        return { content: [{ type: "text", text: JSON.stringify(answer) }] };
      });
    ask("elicit", "elicitation/create");
    ask("impatient", "elicitation/create", { timeout: 50 });
    ask("roots", "roots/list");
  });
  const withdrawn = Promise.withResolvers<void>();
  const requests: unknown[] = [];
  const answering = await TestAggregator.start([definition("s", server.url)], {
    onRequest: (request, signal) => {
      requests.push(request);
      if (requests.length === 1) return Promise.resolve({ action: "accept", content: { a: 1 } });
      return new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          withdrawn.resolve();
          reject(signal.reason);
        });
      });
    },
  });
  const said = async (aggregator: TestAggregator, tool: string) =>
    JSON.parse((await aggregator.call(`s__${tool}`)).result.content[0].text);
  assertEquals(await said(answering, "elicit"), { action: "accept", content: { a: 1 } });
  assertMatch((await said(answering, "impatient")).error, /timed out/i);
  await withdrawn.promise;
  assertMatch((await said(answering, "roots")).error, /Method not found|roots/);
  const params = { message: "which?", requestedSchema: { type: "object", properties: {} } };
  assertEquals(requests[0], { server: "s", method: "elicitation/create", params });
  await answering.close();
  const silent = await TestAggregator.start([definition("s", server.url)]);
  assertMatch((await said(silent, "elicit")).error, /not answered here/);
  await silent.close();
  await server.close();
});
