/** Model calls on WebSockets, through the real proxy, broker and policy: none passes without a decision. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ModelReader } from "../../../lib/model/mod.ts";
import { added, ALL, KEY, world } from "../../helper/credential.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { eventually } from "../../helper/sbx.ts";
import { type GuestSocket, openSocket, socketServer, upgradeHead } from "../../helper/websocket.ts";

const HOST = "api.openai.com";
const BLOCK_MINI = `[profiles.rules.no-mini]\nname = "no mini models"\naction = "block"\n` +
  `match = 'model.request.model.contains("mini")'\nreason = "minis are not allowed here"\n`;

interface Server {
  received: string[];
  /** events that answer a message */
  answer(event: any): unknown[];
}

/** A guest's WebSocket to an API, and what its upstream received. */
async function talk(
  path: string,
  answer: Server["answer"],
  run: (guest: GuestSocket, net: TestNet, received: any[]) => Promise<void>,
  options: TestNetOptions = {},
): Promise<void> {
  let target = { hostname: "", port: 0 };
  await using net = await TestNet.open({ models: new ModelReader(), target: () => target, ...options });
  const received: any[] = [];
  const server = socketServer(await net.leaf(HOST), (socket) => {
    socket.onmessage = ({ data }) => {
      const event = JSON.parse(data);
      received.push(event);
      for (const each of answer(event)) socket.send(JSON.stringify(each));
    };
  });
  target = server.target;
  const guest = await openSocket(net, `wss://${HOST}${path}`);
  try {
    await run(guest, net, received);
  } finally {
    guest.dispose();
    await net.idle();
    await server.close();
  }
}

const calls = (net: TestNet) => net.gate.entries.filter(({ event }) => event.model);

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

/** Messages until one of this type. */
async function until(guest: GuestSocket, type: string): Promise<any> {
  for (let event = JSON.parse(await guest.next());; event = JSON.parse(await guest.next())) {
    if (event.type === type) return event;
  }
}

Deno.test("Responses API: each response.create is a model call with its model, tokens and tools", () =>
  talk("/v1/responses", ({ model }) => responded(`resp_${model}`), async (guest, net, received) => {
    for (const model of ["gpt-5.2", "gpt-4o"]) {
      guest.socket.send(create(model));
      await until(guest, "response.completed");
    }
    assertEquals(received.map(({ model }) => model), ["gpt-5.2", "gpt-4o"]);
    assertEquals(calls(net).length, 2);
    const [{ event, outcome, decision }] = calls(net);
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
    const response = outcome!.response as any;
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
      const { status, stop_reason } = calls(net)[0].outcome!.response as any;
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
    const echo = ({ input }: any) =>
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

/** Events of a response of the Realtime API. */
function spoken(id: string): unknown[] {
  const output = [{ id: "item_1", type: "function_call", name: "weather", arguments: '{"city":"Bern"}' }];
  const usage = { input_tokens: 100, output_tokens: 10, input_token_details: { cached_tokens: 40 } };
  return [
    { type: "response.created", response: { id, status: "in_progress" } },
    { type: "response.output_audio.delta", response_id: id, delta: "AAAA" },
    { type: "response.done", response: { id, status: "completed", output, usage } },
  ];
}

Deno.test("Realtime API: calls take the model of the connection and of its session", () =>
  talk("/v1/realtime?model=gpt-realtime", ({ type }) => {
    if (type === "session.update") {
      return [{ type: "session.updated", session: { model: "gpt-realtime-mini" } }];
    }
    return type === "response.create" ? spoken("resp_1") : [];
  }, async (guest, net, received) => {
    guest.socket.send(JSON.stringify({ type: "conversation.item.create", item: { type: "message" } }));
    guest.socket.send(JSON.stringify({ type: "response.create", response: { tools: [{}] } }));
    await until(guest, "response.done");
    const [{ event, outcome }] = calls(net);
    const { model, api_family, operation, tools_count } = event.model!.request;
    assertEquals([model, api_family, operation, tools_count], [
      "gpt-realtime",
      "openai.realtime",
      "realtime",
      1,
    ]);
    const response = outcome!.response as any;
    assertEquals([response.input_tokens, response.output_tokens, response.stop_reason], [
      100,
      10,
      "completed",
    ]);
    assertEquals(response.tool_calls, [{ name: "weather", arguments: { city: "Bern" } }]);
    guest.socket.send(JSON.stringify({ type: "session.update", session: { model: "gpt-realtime-mini" } }));
    await until(guest, "session.updated");
    guest.socket.send(JSON.stringify({ type: "response.create", event_id: "evt_2" }));
    const { error } = await until(guest, "error");
    assertEquals([error.code, error.event_id], ["policy.blocked", "evt_2"]);
    assertEquals(received.map(({ type }) => type), [
      "conversation.item.create",
      "response.create",
      "session.update",
    ]);
  }, { rules: BLOCK_MINI }));

Deno.test("Realtime API: audio that the server answers by itself is decided on once a turn", async (t) => {
  const audio = JSON.stringify({ type: "input_audio_buffer.append", audio: "AAAA" });
  await t.step(
    "allowed",
    () =>
      talk(
        "/v1/realtime?model=gpt-realtime",
        ({ type }) => type === "input_audio_buffer.commit" ? spoken("resp_1") : [],
        async (guest, net, received) => {
          guest.socket.send(audio);
          guest.socket.send(audio);
          guest.socket.send(JSON.stringify({ type: "input_audio_buffer.commit" }));
          await until(guest, "response.done");
          assertEquals(received.length, 3);
          assertEquals(calls(net).length, 1);
          assertEquals((calls(net)[0].outcome!.response as any).output_tokens, 10);
        },
      ),
  );
  await t.step(
    "blocked",
    () =>
      talk("/v1/realtime?model=gpt-realtime-mini", () => [], async (guest, net, received) => {
        guest.socket.send(audio);
        assertEquals((await until(guest, "error")).error.code, "policy.blocked");
        assertEquals([received, calls(net)[0].decision!.rule.id], [[], "no-mini"]);
      }, { rules: BLOCK_MINI }),
  );
  await t.step(
    "a response that nobody asked for is recorded",
    () =>
      talk("/v1/realtime?model=gpt-realtime", () => spoken("resp_9"), async (guest, net) => {
        guest.socket.send(JSON.stringify({ type: "session.update", session: {} }));
        await until(guest, "response.done");
        const [{ event, outcome, decision }] = calls(net);
        assertEquals([event.common.enforceability, event.model!.request.model, decision], [
          "observe_only",
          "gpt-realtime",
          undefined,
        ]);
        assertEquals((outcome!.response as any).output_tokens, 10);
      }),
  );
});

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

Deno.test("Realtime API: no message of a client makes another model answer than is decided on", async (t) => {
  const update = (model: string) => ({ type: "session.update", session: { model } });
  const audio = { type: "input_audio_buffer.append", audio: "AAAA" };
  const create = { type: "response.create" };
  const SENT = [{ type: "error", error: { code: "sent" } }];
  const cases: [name: string, model: string, messages: object[]][] = [
    ["an update that the server has not confirmed", "gpt-realtime-mini", [update("gpt-realtime"), create]],
    ["a refused call that names another model", "gpt-realtime-mini", [
      { ...create, model: "gpt-realtime" },
      create,
    ]],
    ["an update between two", "gpt-realtime", [
      update("gpt-realtime-mini"),
      update("gpt-realtime"),
      update("gpt-realtime-mini"),
      create,
    ]],
    ["many updates", "gpt-realtime-mini", [...Array(70).fill(update("gpt-realtime")), create]],
    ["names of one model in many spellings, and of another", "gpt-realtime", [
      {
        type: "session.update",
        session: {
          a: [...Array(70).keys()].map((at) => ({ model: `publishers/${at}/models/gpt-realtime` })),
        },
      },
      { type: "session.update", session: { input: { transcription: { model: "gpt-4o-mini-transcribe" } } } },
      create,
    ]],
    ["an update within a turn", "gpt-realtime", [audio, update("gpt-realtime-mini"), audio]],
  ];
  for (const [name, model, messages] of cases) {
    let appended = 0;
    const isCall = ({ type }: any) => type === create.type || type === audio.type && ++appended > 1;
    await t.step(name, () =>
      // The upstream answers a call with an error too, so that the test ends when one is sent.
      talk(
        `/v1/realtime?model=${model}`,
        (event) => isCall(event) ? SENT : [],
        async (guest, _, received) => {
          for (const message of messages) guest.socket.send(JSON.stringify(message));
          const refused = new Set<string>();
          while (refused.size === 0) refused.add((await until(guest, "error")).error.code);
          // Every message before this one has been decided on when it is answered.
          guest.socket.send(JSON.stringify({ type: "response.cancel", event_id: "last" }));
          await eventually("the last message is sent", () => received.at(-1)?.event_id === "last");
          assertEquals(received.filter(({ type }) => type === "response.create"), []);
          assertEquals(
            received.filter(({ type }) => type === audio.type).length,
            messages[0] === audio ? 1 : 0,
          );
        },
        { rules: BLOCK_MINI },
      ));
  }
});

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
