/**
 * Requests of servers: refused, asked about, and answered by the program that
 * called, or by the form's defaults.
 */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  type ServerRequest,
} from "@modelcontextprotocol/sdk/types.js";
import { assertEquals } from "@std/assert";
import { z } from "zod";
import { defaultsOf } from "../../../../lib/mcp/endpoint/mod.ts";
import { mcpResponse, TestGate } from "../../../helper/gate.ts";
import { SdkCatalogue } from "../../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide, GuestTransport } from "../../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../../helper/mcp_endpoint_server.ts";
import { eventually } from "../../../helper/sbx.ts";
import type { Parsed } from "../../../helper/json.ts";

const FORM = {
  message: "which colour?",
  requestedSchema: {
    type: "object",
    properties: { colour: { type: "string", default: "blue" }, size: { type: "integer" } },
  },
};
const SAMPLE = { messages: [{ role: "user", content: { type: "text", text: "hi" } }], maxTokens: 5 };
const allow = (method: string) =>
  `[profiles.rules.allow]\naction = "allow"\npriority = 20\nmatch = 'mcp.request.method == "${method}"'`;

/** A guest whose client has these capabilities, and a server whose tool `ask` makes a request. */
async function setUp(rules: string | undefined, capabilities: object, method: string, params: object) {
  const { server } = testServer();
  server.registerTool("ask", {}, async ({ sendRequest }) => {
    const answer = await sendRequest({ method, params } as ServerRequest, z.looseObject({})).catch((
      error: Error,
    ) => error.message);
    return { content: [{ type: "text", text: JSON.stringify(answer) }] };
  });
  const gate = new TestGate(rules);
  const guest = new GuestSide({ gate, catalogue: await SdkCatalogue.of(server, "test") });
  const client = new Client({ name: "agent", version: "1" }, { capabilities });
  await client.connect(new GuestTransport(await guest.connect()));
  const ask = async () => {
    const { content }: Parsed = await client.callTool({ name: "test__ask" });
    return JSON.parse(content[0].text);
  };
  return { gate, guest, client, ask };
}

Deno.test("an elicitation asks a person, who sees the question; allowed, the form's defaults answer", async () => {
  for (const decision of ["allow", "deny"] as const) {
    const { gate, guest, client, ask } = await setUp(undefined, {}, "elicitation/create", FORM);
    await using _ = guest;
    const answered = ask();
    await eventually("a person is asked", () => gate.asks.pending().length === 1);
    const [{ ask_id, subject, rule_id }] = gate.asks.pending();
    assertEquals([subject.includes(`elicitation/create test {"message":"which colour?"`), rule_id], [
      true,
      "ask-mcp-elicitation",
    ]);
    gate.asks.resolve(ask_id, { decision, scope: "once" }, { user: "ann", client: "test" });
    assertEquals(
      await answered,
      decision === "allow" ? { action: "accept", content: { colour: "blue" } } : { action: "decline" },
    );
    await client.close();
  }
});

Deno.test("a program of the guest answers an elicitation that is allowed, and the answer is reviewed", async () => {
  const rules = `${allow("elicitation/create")}
[profiles.rules.no-red]
action = "block"
match = 'mcp.response.content.exists(item, item.colour == "red")'
`;
  const { gate, guest, client, ask } = await setUp(rules, { elicitation: {} }, "elicitation/create", FORM);
  await using _ = guest;
  let colour = "green";
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    assertEquals(params.message, "test: which colour?");
    return { action: "accept", content: { colour } };
  });
  assertEquals(await ask(), { action: "accept", content: { colour: "green" } });
  const event = gate.entries.find(({ event }) => event.mcp!.request.method === "elicitation/create")!;
  assertEquals(mcpResponse(event).content, [{ colour: "green" }]);
  colour = "red";
  assertEquals(await ask(), { action: "decline" });
  await client.close();
});

Deno.test("sampling is refused unless a rule allows it, and needs a program that offers it", async () => {
  const method = "sampling/createMessage";
  const said = { role: "assistant", content: { type: "text", text: "hello" }, model: "m" } as const;
  const cases: [string | undefined, object, unknown][] = [
    [undefined, { sampling: {} }, /policy of the client does not allow sampling/],
    [allow(method), {}, /no program of the client/],
    [allow(method), { sampling: {} }, said],
  ];
  for (const [rules, capabilities, expected] of cases) {
    const { gate, guest, client, ask } = await setUp(rules, capabilities, method, SAMPLE);
    await using _ = guest;
    if ("sampling" in capabilities) client.setRequestHandler(CreateMessageRequestSchema, () => said);
    const answer = await ask();
    if (expected instanceof RegExp) assertEquals(expected.test(answer), true, answer);
    else assertEquals(answer, expected);
    const event = gate.entries.find(({ event }) => event.mcp!.request.method === method)!;
    assertEquals(event.decision!.rule.id, rules ? "allow" : "block-mcp-sampling");
    await client.close();
  }
});

Deno.test("defaults answer complete forms only", () => {
  const { requestedSchema } = FORM;
  assertEquals(defaultsOf(FORM), { colour: "blue" });
  assertEquals(
    defaultsOf({ ...FORM, requestedSchema: { ...requestedSchema, required: ["size"] } }),
    undefined,
  );
  assertEquals(defaultsOf({ mode: "url", url: "https://a" }), undefined);
  assertEquals(defaultsOf({ requestedSchema: { type: "object" } }), {});
});
