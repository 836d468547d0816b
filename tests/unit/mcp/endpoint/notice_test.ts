/** Log messages and updates of servers: passed to the guests that want them, and decided on first. */
import { assertEquals, assertRejects } from "@std/assert";
import type { Catalogue, ServerNotice } from "../../../../lib/mcp/endpoint/mod.ts";
import { TestGate } from "../../../helper/gate.ts";
import { GuestSide } from "../../../helper/mcp_endpoint_guest.ts";
import { eventually } from "../../../helper/sbx.ts";

/** A catalogue without entries, whose servers say what a test lets them say. */
class SpeakingCatalogue {
  readonly calls: string[] = [];
  say: (notice: ServerNotice) => void = () => {};
  listTools = () => Promise.resolve([]);
  listResources = () => Promise.resolve([]);
  listPrompts = () => Promise.resolve([]);
  callTool = () => Promise.resolve({ content: [] });
  readResource = () => Promise.resolve({ contents: [] });
  getPrompt = () => Promise.resolve({ messages: [] });
  complete = () => Promise.resolve({ completion: { values: ["one"] } });

  subscribe(uri: string) {
    this.calls.push(`+${uri}`);
    return Promise.resolve();
  }

  unsubscribe(uri: string) {
    this.calls.push(`-${uri}`);
    return Promise.resolve();
  }

  watchNotices(noticed: (notice: ServerNotice) => void) {
    this.say = noticed;
    return () => {};
  }
}

function setUp(rules?: string) {
  const gate = new TestGate(rules);
  const catalogue = new SpeakingCatalogue();
  return { gate, catalogue, guest: new GuestSide({ gate, catalogue: catalogue satisfies Catalogue }) };
}

const log = (level: string, data: unknown): ServerNotice => ({
  server: "s",
  method: "notifications/message",
  params: { level, data, logger: "db" },
});
const request = (id: number, method: string, params: object) => ({ jsonrpc: "2.0", id, method, params });

Deno.test("log messages of servers pass policy, and reach guests that set a level", async () => {
  const { gate, catalogue, guest } = setUp(`
[profiles.rules.no-secrets]
action = "block"
match = 'mcp.request.method == "notifications/message" && mcp.request.arguments.data == "hidden"'
`);
  await using _ = guest;
  const channel = await guest.initialized();
  catalogue.say(log("info", "nobody listens"));
  await channel.send(request(1, "logging/setLevel", { level: "warning" }));
  await channel.next();
  for (
    const [level, data] of [["info", "too low"], ["error", "hidden"], ["shout", "no level"], [
      "error",
      "seen",
    ]]
  ) {
    catalogue.say(log(level, data));
  }
  assertEquals(await channel.next(), {
    jsonrpc: "2.0",
    method: "notifications/message",
    params: { level: "error", logger: "s/db", data: "seen" },
  });
  assertEquals(
    gate.entries.map(({ event, decision }) => [event.mcp?.request.arguments.data, decision?.decision]),
    [
      ["hidden", "block"],
      ["seen", "allow"],
    ],
  );
  for (let count = 0; count < 200; count++) catalogue.say(log("error", count));
  await channel.send(request(2, "ping", {}));
  while ((await channel.next() as { id?: number }).id !== 2);
  assertEquals(gate.entries.length <= 120, true, "a server cannot flood the ledger");
  channel.close();
});

Deno.test("updates reach the connections that are subscribed, and the last one to leave ends the subscription", async () => {
  const { gate, catalogue, guest } = setUp(`
[profiles.rules.not-that]
action = "block"
match = 'mcp.request.method == "resources/subscribe" && mcp.request.namespaced_tool_name == "sbx://s/no"'
`);
  await using _ = guest;
  const [first, second] = [await guest.client(), await guest.client()];
  await assertRejects(() => first.subscribeResource({ uri: "sbx://s/no" }));
  await first.subscribeResource({ uri: "sbx://s/a" });
  await second.subscribeResource({ uri: "sbx://s/a" });
  const updated: string[] = [];
  first.fallbackNotificationHandler = ({ method }) => Promise.resolve(void updated.push(`first ${method}`));
  second.fallbackNotificationHandler = ({ method }) => Promise.resolve(void updated.push(`second ${method}`));
  const update = (uri: string) => ({
    server: "s",
    method: "notifications/resources/updated" as const,
    params: { uri },
  });
  catalogue.say(update("sbx://s/b"));
  catalogue.say(update("sbx://s/a"));
  await eventually("both are told", () => updated.length === 2);
  await first.unsubscribeResource({ uri: "sbx://s/a" });
  assertEquals(catalogue.calls, ["+sbx://s/a", "+sbx://s/a"]);
  await second.close();
  await eventually("the subscription ends", () => catalogue.calls.includes("-sbx://s/a"));
  assertEquals(
    updated.sort(),
    [1, 2].map((at) => `${["first", "second"][at - 1]} notifications/resources/updated`),
  );
  assertEquals(
    (await first.complete({ ref: { type: "ref/prompt", name: "s__p" }, argument: { name: "a", value: "" } }))
      .completion.values,
    ["one"],
  );
  assertEquals(gate.entries.at(-1)!.event.mcp!.request.method, "completion/complete");
});
