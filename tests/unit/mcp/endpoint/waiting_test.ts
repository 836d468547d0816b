/**
 * A request that waits for a person tells its client so, and outlasts the
 * client's and the endpoint's timeouts.
 */
// @ts-types="@modelcontextprotocol/sdk/types"
import { LoggingMessageNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { assertEquals } from "@std/assert";
import { reportWaiting } from "../../../../lib/mcp/endpoint/perform.ts";
import { TestGate } from "../../../helper/gate.ts";
import { SdkCatalogue } from "../../../helper/mcp_endpoint_catalogue.ts";
import { GuestSide } from "../../../helper/mcp_endpoint_guest.ts";
import { testServer } from "../../../helper/mcp_endpoint_server.ts";
import { eventually } from "../../../helper/sbx.ts";

const RULES =
  `[profiles.rules.ask]\naction = "ask"\nask_timeout = 86400\nmatch = 'mcp.request.tool_name == "deploy"'`;

Deno.test("a call that waits for a person tells its ask, by progress or by a log message", async () => {
  const { server } = testServer();
  const gate = new TestGate(RULES);
  await using guest = new GuestSide({
    gate,
    catalogue: await SdkCatalogue.of(server, "test"),
    limits: { callTimeoutMs: 100 },
  });
  const client = await guest.client();
  const messages: (string | undefined)[] = [];
  client.setNotificationHandler(
    LoggingMessageNotificationSchema,
    ({ params }) => void messages.push(String(params.data)),
  );
  await client.setLoggingLevel("info");
  const params = { name: "test__deploy", arguments: { target: "prod" } };
  for (const onprogress of [({ message }: { message?: string }) => void messages.push(message), undefined]) {
    messages.length = 0;
    const result = client.callTool(params, undefined, { onprogress });
    await eventually("it is asked", () => gate.asks.pending().length === 1);
    const [{ ask_id }] = gate.asks.pending();
    await eventually("the client is told", () => messages.length === 1);
    assertEquals(messages, [`waits for a person: ${ask_id}`]);
    // Longer than the timeout of a call, which begins with the answer.
    await new Promise((resolve) => setTimeout(resolve, 150));
    gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
    assertEquals(((await result) as { isError?: boolean }).isError, undefined);
  }
});

Deno.test("progress is told at intervals, and ends with the wait", async () => {
  const told: number[] = [];
  const end = reportWaiting("ask-1", ({ progress }) => told.push(progress), () => {}, 1);
  await eventually("it is told again", () => told.length > 3);
  end();
  const { length } = told;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assertEquals([told.length, told], [length, told.toSorted((a, b) => a - b)]);
});
