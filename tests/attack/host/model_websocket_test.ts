/**
 * Model calls on WebSockets of the Responses API and of APIs that are not read:
 * none passes without a decision.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ModelReader } from "../../../lib/network/model/mod.ts";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { eventually } from "../../helper/sbx.ts";
import { upgradeHead } from "../../helper/websocket.ts";
import { BLOCK_MINI, calls, HOST, talk, until } from "../../helper/model_socket.ts";
import { modelResponse } from "../../helper/gate.ts";
import type { Parsed } from "../../helper/json.ts";

/** Events of a response of the Responses API. */
function responded(id: string, more: unknown[] = []): unknown[] {
  const item = { id: `fc_${id}`, type: "function_call", name: "shell", arguments: '{"cmd":"ls"}' };
  const usage = { input_tokens: 1000, output_tokens: 20, input_tokens_details: { cached_tokens: 400 } };
  return [
    { type: "response.created", response: { id, status: "in_progress" } },
    { type: "response.output_text.delta", delta: "hel" },
    ...more,
    { type: "response.output_item.done", item },
    {
      type: "response.completed",
      response: { id, object: "response", status: "completed", output: [item], usage },
    },
  ];
}

const create = (model: string | undefined, more = {}) =>
  JSON.stringify({
    type: "response.create",
    ...(model !== undefined && { model }),
    input: "hi",
    tools: [{}],
    ...more,
  });

Deno.test("Responses API: each response.create is a model call with its model, tokens and tools", () =>
  talk("/v1/responses", ({ model }) => responded(`resp_${model}`), async (guest, net, received) => {
    for (const model of ["gpt-5.2", "gpt-4o"]) {
      guest.socket.send(create(model));
      await until(guest, "response.completed");
    }
    assertEquals(received.map(({ model }) => model), ["gpt-5.2", "gpt-4o"]);
    assertEquals(calls(net).length, 2);
    const [call] = calls(net);
    const { event, decision } = call;
    const { body, ...request } = event.model!.request;
    assertEquals(request, {
      provider: "openai",
      api_family: "openai.responses",
      operation: "responses",
      model: "gpt-5.2",
      stream: true,
      messages_count: 1,
      tools_count: 1,
    });
    assertStringIncludes(body.text!, '"input":"hi"');
    assertEquals(decision!.decision, "allow");
    const response = modelResponse(call);
    assertEquals([response.status, response.stop_reason, response.input_tokens, response.output_tokens], [
      200,
      "completed",
      1000,
      20,
    ]);
    assertEquals(response.tool_calls, [{ name: "shell", arguments: { cmd: "ls" } }]);
  }));

Deno.test("Responses API: a call that a rule blocks is not sent, and the guest gets an error of the API", () =>
  talk("/v1/responses", ({ model }) => responded(`resp_${model}`), async (guest, net, received) => {
    guest.socket.send(create("gpt-4o-mini", { event_id: "evt_1" }));
    const error = await until(guest, "error");
    assertEquals([error.status, error.error.code, error.error.event_id], [403, "policy.blocked", "evt_1"]);
    assertStringIncludes(error.error.message, "minis are not allowed here");
    guest.socket.send(create("gpt-4o"));
    await until(guest, "response.completed");
    // A message that continues without a model is a call to the model before.
    guest.socket.send(JSON.stringify({ type: "response.append", input: [] }));
    await until(guest, "response.completed");
    assertEquals(received.map(({ type, model }) => [type, model]), [
      ["response.create", "gpt-4o"],
      ["response.append", undefined],
    ]);
    const decided = calls(net).map(({ event, decision }) => [event.model!.request.model, decision!.decision]);
    assertEquals(decided, [["gpt-4o-mini", "block"], ["gpt-4o", "allow"], ["gpt-4o", "allow"]]);
  }, { rules: BLOCK_MINI }));

Deno.test("Responses API: messages that rules on models cannot read are not sent", async (t) => {
  const messages: Record<string, string | Uint8Array<ArrayBuffer>> = {
    "a repeated model": '{"type":"response.create","model":"gpt-4o-mini","model":"gpt-4o","input":"hi"}',
    "a repeated type":
      '{"type":"response.create","model":"gpt-4o-mini","input":"hi","type":"response.cancel"}',
    "a type in escapes":
      '{"type":"response.create","model":"gpt-4o-mini","input":"hi","\\u0074ype":"response.cancel"}',
    "no model": create(undefined),
    "a second model": create("gpt-4o", { response: { model: "gpt-4o-mini" } }),
    "an event that nobody knows": '{"type":"response.spawn","input":"hi"}',
    "a list": `[${create("gpt-4o-mini")}]`,
    "no JSON": "response.create",
    "NaN": create("gpt-4o").replace('"hi"', "NaN"),
    "binary": new TextEncoder().encode(`\ufeff${create("gpt-4o-mini")}`).slice(1),
  };
  for (const [name, message] of Object.entries(messages)) {
    await t.step(name, () =>
      talk("/v1/responses", () => [], async (guest, net, received) => {
        guest.socket.send(message);
        assertEquals((await until(guest, "error")).status, 403);
        assertEquals([received, calls(net)[0].decision!.rule.id], [[], "guard-model"]);
      }, { rules: BLOCK_MINI }));
  }
  await t.step(
    "a model over three fragments",
    () =>
      talk("/v1/responses", () => [], async (guest, net, received) => {
        guest.socket.send(create("gpt-4o-mini", { padding: "x".repeat(3 << 20) }));
        assertEquals((await until(guest, "error")).error.code, "policy.blocked");
        assertEquals([received.length, calls(net)[0].decision!.rule.id], [0, "no-mini"]);
      }, { rules: BLOCK_MINI }),
  );
});

Deno.test("Responses API: a rewrite changes the message, and an error of the API ends its call", () =>
  talk(
    "/v1/responses",
    () => [{ type: "error", status: 429, error: { type: "too_many_requests", code: "rate_limited" } }],
    async (guest, net, received) => {
      guest.socket.send(create("gpt-5.2"));
      await until(guest, "error");
      assertEquals(received.map(({ model }) => model), ["gpt-4o"]);
      await eventually("the call ends", () => calls(net)[0].outcome !== undefined);
      const { status, stop_reason } = modelResponse(calls(net)[0]);
      assertEquals([status, stop_reason], [429, "rate_limited"]);
    },
    {
      rules:
        `[profiles.rules.cheap]\nname = "cheap"\naction = "rewrite"\nmatch = 'model.request.model == "gpt-5.2"'\n` +
        `rewrite = [{ op = "set", path = "model.request.model", value = "gpt-4o" }]\n`,
    },
  ));

Deno.test(
  "Responses API: a secret in a message is withheld from the upstream, and no record holds it",
  world(added, async ({ open }) => {
    const echo = ({ input }: Parsed) =>
      responded("resp_1", [{ type: "response.output_text.done", text: `${input} ${KEY.github}` }]);
    await talk("/v1/responses", echo, async (guest, net, received) => {
      guest.socket.send(create("gpt-4o", { input: `my key is ${KEY.anthropic}` }));
      await until(guest, "response.completed");
      assert(!JSON.stringify(received).includes(KEY.anthropic));
      assertStringIncludes(received[0].input, "credential-withheld");
      assert(!guest.messages.join().includes(KEY.github));
      assertEquals(calls(net).length, 1);
      const all = JSON.stringify(net.gate.entries);
      assert(!all.includes(KEY.anthropic) && !all.includes(KEY.github));
    }, { broker: await open(ALL) });
  }),
);

Deno.test("Responses API: a call whose connection ends is recorded as incomplete", () =>
  talk(
    "/v1/responses",
    () => [{ type: "response.created", response: { id: "resp_1" } }],
    async (guest, net) => {
      guest.socket.send(create("gpt-4o"));
      await until(guest, "response.created");
      guest.dispose();
      await net.idle();
      assertStringIncludes(calls(net)[0].outcome!.error!, "before the response was complete");
    },
  ));

Deno.test("Responses API: a refused call does not name the model of those that follow", () =>
  talk(
    "/v1/responses",
    ({ model }) => model ? responded(`resp_${model}`) : [{ type: "error" }],
    async (guest, net, received) => {
      const rules = ["gpt-4o", "gpt-5.2"];
      guest.socket.send(create(rules[0], { tools: [] }));
      await until(guest, "response.completed");
      guest.socket.send(create(rules[1], { secret: true }));
      await until(guest, "error");
      guest.socket.send(JSON.stringify({ type: "response.create", input: [], tools: [{}] }));
      await until(guest, "error");
      assertEquals(received.length, 1);
      assertEquals(calls(net).map(({ event }) => event.model!.request.model), [
        "gpt-4o",
        "gpt-5.2",
        "gpt-4o",
      ]);
    },
    {
      rules: `[profiles.rules.no-tools]\naction = "block"\n` +
        `match = 'model.request.model == "gpt-4o" && model.request.tools_count > 0'\n` +
        `[profiles.rules.no-secret]\naction = "block"\nmatch = 'model.request.body.text.contains("secret")'\n`,
    },
  ));

Deno.test("a WebSocket to a provider that is not read is refused where rules read models, whatever allows it", async () => {
  const rules = `${BLOCK_MINI}[profiles.rules.sockets]\nname = "sockets"\naction = "allow"\n` +
    `match = 'http.request.headers["upgrade"][0] == "websocket"'\n`;
  await using net = await TestNet.open({ models: new ModelReader(), rules });
  for (
    const [host, path] of [[HOST, "/v1/other"], [
      "generativelanguage.googleapis.com",
      "/ws/BidiGenerateContent",
    ]]
  ) {
    const client = await net.tls(host);
    assertEquals((await client.ask(upgradeHead(host, path))).status, 403);
    assertEquals(net.gate.entries.at(-1)!.decision!.rule.id, "guard-model");
    client.close();
  }
});
