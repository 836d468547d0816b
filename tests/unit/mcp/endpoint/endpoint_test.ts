/**
 * The guest's MCP endpoint, used by the SDK's client through the guest's own bridge: policy, results, ledger.
 */
// @ts-types="@modelcontextprotocol/sdk/types"
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mcpResponse, TestGate } from "../../../helper/gate.ts";
import { SdkCatalogue } from "../../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../../helper/mcp_endpoint_server.ts";
import type { Parsed } from "../../../helper/json.ts";

const RULES = `
[corp.rules.no-deleting]
action = "block"
match = 'mcp.request.tool_name.startsWith("delete_")'
reason = "nothing is deleted"

[corp.rules.other-tool]
action = "rewrite"
match = 'mcp.request.namespaced_tool_name == "test__fail"'
rewrite = [
  { op = "set", path = "mcp.request.namespaced_tool_name", value = "test__shout" },
  { op = "set", path = "mcp.request.tool_name", value = "shout" },
]

[corp.rules.half-a-rewrite]
action = "rewrite"
match = 'mcp.request.namespaced_tool_name == "test__image"'
rewrite = [{ op = "set", path = "mcp.request.namespaced_tool_name", value = "test__shout" }]

[profiles.rules.ask-before-deploy]
action = "ask"
match = 'mcp.request.tool_name == "deploy"'
reason = "a person looks first"

[profiles.rules.no-secrets-out]
action = "block"
match = 'mcp.response.content.exists(item, item.text.contains("TOP SECRET"))'

[profiles.rules.no-users]
action = "block"
match = 'mcp.request.method == "resources/read" && mcp.request.tool_name.startsWith("user://")'

[profiles.rules.no-addresses]
action = "rewrite"
match = 'mcp.request.namespaced_tool_name == "test__shout"'
rewrite = [{ op = "replace", path = "mcp.request.arguments.text", pattern = "me@example\\\\.org", value = "***" }]
`;

async function setUp(rules = RULES) {
  const test = testServer();
  const gate = new TestGate(rules);
  const catalogue = await SdkCatalogue.of(test.server, "test");
  const guest = new GuestSide({ gate, catalogue });
  return { ...test, gate, guest };
}

const textOf = (result: unknown) => (result as { content: { text: string }[] }).content[0].text;

Deno.test("lists, calls, reads and prompts work, and each is an event with its decision and outcome", async () => {
  const { guest, gate, calls } = await setUp("");
  await using _ = guest;
  const client = await guest.client();
  assertEquals(client.getServerVersion()?.name, "sbx");

  const { tools } = await client.listTools();
  assertEquals(tools.length, 8);
  assertEquals(tools[0].name, "test__shout");
  assertEquals(tools[0].inputSchema.required, ["text"]);
  assertEquals(textOf(await client.callTool({ name: "test__shout", arguments: { text: "hi" } })), "HI");
  assertEquals(calls, [{ tool: "shout", args: { text: "hi" } }]);

  const { resources } = await client.listResources();
  assertEquals(resources.map(({ uri }) => uri), ["sbx://test/file:///readme.md"]);
  const read = await client.readResource({ uri: "sbx://test/file:///readme.md" });
  assertEquals(read.contents, [{ uri: "file:///readme.md", text: "# hello" }]);
  const { resourceTemplates } = await client.listResourceTemplates();
  assertEquals(resourceTemplates.map(({ uriTemplate }) => uriTemplate), ["sbx://test/user://{id}"]);
  const { prompts } = await client.listPrompts();
  assertEquals(prompts.map(({ name }) => name), ["test__greet"]);
  const prompt = await client.getPrompt({ name: "test__greet", arguments: { name: "Ada" } });
  assertEquals(prompt.messages[0].content, { type: "text", text: "hello Ada" });

  assertEquals(
    gate.entries.map(({ event, decision, outcome }) => [
      event.common.event_type,
      event.mcp!.request.method,
      event.mcp!.request.server_name,
      event.mcp!.request.tool_name,
      decision!.decision,
      outcome?.error === undefined,
    ]),
    [
      ["mcp.tool_list", "tools/list", "", "", "allow", true],
      ["mcp.tool_call", "tools/call", "test", "shout", "allow", true],
      ["mcp.event", "resources/list", "", "", "allow", true],
      ["mcp.event", "resources/read", "test", "file:///readme.md", "allow", true],
      ["mcp.event", "resources/templates/list", "", "", "allow", true],
      ["mcp.event", "prompts/list", "", "", "allow", true],
      ["mcp.event", "prompts/get", "test", "greet", "allow", true],
    ],
  );
  assertEquals(gate.entries[4].outcome!.response, {
    is_error: false,
    content: [{ name: "sbx://test/user://{id}" }],
  });
  const call = gate.entries[1];
  assertEquals(call.event.common.process?.command, "agent");
  assertEquals(call.event.common.source_engine, "mcp");
  assertEquals(call.outcome!.response, { is_error: false, content: [{ type: "text", text: "HI" }] });
});

Deno.test("a corp rule blocks one tool, rewrites an argument of another, and asks about a third", async (t) => {
  const { guest, gate, calls } = await setUp();
  await using _ = guest;
  const client = await guest.client();

  await t.step(
    "blocked: nothing reaches the server, and the answer contains rule and reason",
    async () => {
      const error = await assertRejects(() => client.callTool({ name: "test__delete_all" }), McpError);
      assertEquals(error.code, -32600);
      assert(
        error.message.includes('blocked by policy: nothing is deleted (rule "no-deleting"); ask your user'),
        error.message,
      );
      assertEquals(error.data, {
        event_id: gate.entries[0].event.common.event_id,
        decision: "block",
        rule: { id: "no-deleting", reason: "nothing is deleted" },
        hint: "ask your user",
      });
      assertEquals(calls, []);
    },
  );

  await t.step("rewritten: the server receives the rewritten request", async () => {
    const args = { text: "write to me@example.org", more: [1, { a: null }] };
    assertEquals(textOf(await client.callTool({ name: "test__shout", arguments: args })), "WRITE TO ***");
    assertEquals(calls.pop(), { tool: "shout", args: { text: "write to ***" } });
    // Calls another tool when every name is rewritten.
    const other = await client.callTool({ name: "test__fail", arguments: { text: "now" } });
    assertEquals(textOf(other), "NOW");
    const half = await assertRejects(() => client.callTool({ name: "test__image" }), McpError);
    assertEquals(half.code, -32603);
    assert(half.message.includes("rewrite server_name, tool_name and namespaced_tool_name together"));
  });

  await t.step("asked: this call waits, others do not", async () => {
    for (const [decision, expected] of [["allow", "deployed prod"], ["deny", undefined]] as const) {
      const call = client.callTool({ name: "test__deploy", arguments: { target: "prod" } });
      call.catch(() => {});
      assertEquals(textOf(await client.callTool({ name: "test__shout", arguments: { text: "a" } })), "A");
      const [ask] = gate.asks.pending();
      assertEquals(ask.reason, "a person looks first");
      gate.asks.resolve(ask.ask_id, { decision, scope: "once" });
      if (expected) assertEquals(textOf(await call), expected);
      else assertEquals((await assertRejects(() => call, McpError)).code, -32600);
    }
  });

  await t.step("every result is checked before the guest receives it", async () => {
    assertEquals((await client.listTools()).tools.length, 8);
    assertEquals((await client.readResource({ uri: "sbx://test/file:///readme.md" })).contents.length, 1);
    assertEquals(
      (await client.getPrompt({ name: "test__greet", arguments: { name: "A" } })).messages.length,
      1,
    );
    const call = () => client.callTool({ name: "test__shout", arguments: { text: "top secret" } });
    const error = await assertRejects(call, McpError);
    assertEquals([error.code, (error.data as Parsed).rule.id], [-32600, "no-secrets-out"]);
    assertEquals(gate.entries.at(-1)!.decision!.decision, "block");
  });

  await t.step("policy decides on a read by its own name", async () => {
    const read = () => client.readResource({ uri: "sbx://test/user://ada" });
    assertEquals((await assertRejects(read, McpError)).code, -32600);
    assertEquals(gate.entries.at(-1)!.event.mcp!.request.namespaced_tool_name, "sbx://test/user://ada");
  });
});

Deno.test("the ledger stores results with texts cut and bytes replaced by their size", async () => {
  const { guest, gate } = await setUp("");
  await using _ = guest;
  const client = await guest.client();
  const { content }: Parsed = await client.callTool({ name: "test__image" });
  assertEquals(content[0].data.length, 4000);
  assertEquals((await client.callTool({ name: "test__fail" })).isError, true);
  const big = await client.callTool({ name: "test__big", arguments: { bytes: 500_000 } });
  assertEquals(textOf(big).length, 500_000);
  const [image, failed, cut] = gate.entries.map((entry): Parsed => mcpResponse(entry));
  assertEquals(image.content, [{ type: "image", data: "(3000 bytes)", mimeType: "image/png" }]);
  assertEquals(failed.is_error, true);
  assert(cut.content[0].text.length < 17_000 && cut.content[0].text.endsWith("… (500000 characters)"));
});

Deno.test("a long result reaches the client whole", async () => {
  const { guest } = await setUp("");
  await using _ = guest;
  const client = await guest.client();
  const bytes = 3 * 1024 * 1024;
  const big = await client.callTool({ name: "test__big", arguments: { bytes } });
  assertEquals(textOf(big).length, bytes);
});

Deno.test("a failed request is an error with its code, also in the ledger", async () => {
  const { guest, gate } = await setUp("");
  await using _ = guest;
  const client = await guest.client();
  const rejected = async (call: () => Promise<unknown>) => {
    const { code, message } = await assertRejects(call, McpError);
    return [code, message];
  };
  const cases: [() => Promise<unknown>, number, string][] = [
    [() => client.callTool({ name: "other__tool" }), -32602, 'no MCP server has a tool "other__tool"'],
    [() => client.readResource({ uri: "sbx://other/x" }), -32602, "no MCP server has a resource"],
    [
      () => client.callTool({ name: "x".repeat(513) }),
      -32602,
      "params.name must be a string of 1 to 512 characters",
    ],
    [() => client.listTools({ cursor: "nonsense" }), -32602, "params.cursor was not issued by this list"],
    [
      () => client.callTool({ name: "test__big", arguments: { bytes: 5 * 1024 * 1024 } }),
      -32603,
      "the result exceeds the frame limit of 4 MiB",
    ],
    // Text of an unexpected error is not passed to the guest.
    [() => client.readResource({ uri: "sbx://test/nowhere:///" }), -32603, "the request failed on the host"],
  ];
  for (const [call, code, message] of cases) {
    const [actual, text] = await rejected(call);
    assertEquals(actual, code, message);
    assert(String(text).includes(message), `${text}`);
  }
  const errors = gate.entries.map(({ outcome }) => outcome?.error);
  assertEquals(errors.filter((error) => error !== undefined).length, 5, JSON.stringify(errors));
});

Deno.test("a call has the trace of its _meta, whatever becomes of it; text that is none is no trace", async () => {
  const { guest, gate } = await setUp();
  await using _ = guest;
  const client = await guest.client();
  const trace = "4bf92f3577b34da6a3ce929d0e0e4736";
  const call = (name: string, traceparent: unknown) =>
    client.callTool({ name, arguments: { text: "hi" }, _meta: { traceparent } }).catch(() => {});
  await call("test__shout", `00-${trace}-00f067aa0ba902b7-01`);
  await call("test__delete_all", `00-${trace}-00f067aa0ba902b7-01`);
  await call("test__shout", "credential");
  await call("test__shout", [`00-${trace}-00f067aa0ba902b7-01`]);
  const traces = gate.entries.filter(({ event }) => event.common.event_type === "mcp.tool_call")
    .map(({ event: { common } }) => common.trace_id);
  assertEquals(traces, [trace, trace, undefined, undefined]);
});
