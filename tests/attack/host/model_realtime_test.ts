/** Model calls on WebSockets of the Realtime API: no message makes a model answer that was not decided on. */
import { assertEquals } from "@std/assert";
import { eventually } from "../../helper/sbx.ts";
import { BLOCK_MINI, calls, talk, until } from "../../helper/model_socket.ts";
import { modelResponse } from "../../helper/gate.ts";
import type { Parsed } from "../../helper/json.ts";

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
    const [call] = calls(net);
    const { event } = call;
    const { model, api_family, operation, tools_count } = event.model!.request;
    assertEquals([model, api_family, operation, tools_count], [
      "gpt-realtime",
      "openai.realtime",
      "realtime",
      1,
    ]);
    const response = modelResponse(call);
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
          assertEquals(modelResponse(calls(net)[0]).output_tokens, 10);
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
        const [call] = calls(net);
        const { event, decision } = call;
        assertEquals([event.common.enforceability, event.model!.request.model, decision], [
          "observe_only",
          "gpt-realtime",
          undefined,
        ]);
        assertEquals(modelResponse(call).output_tokens, 10);
      }),
  );
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
    const isCall = ({ type }: Parsed) => type === create.type || type === audio.type && ++appended > 1;
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
