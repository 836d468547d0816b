/**
 * Calls of Bedrock's models: hosts, prices, binary streams, and budgets
 * (docs/design/contracts/05-policy.md §5).
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { lenientPath } from "../../../../lib/base/url/mod.ts";
import { providerOf } from "../../../../lib/event/mod.ts";
import { BUILT_IN_PRICES, LINE_MAX, ModelReader, PARSE_ERROR } from "../../../../lib/network/model/mod.ts";
import { billOf } from "../../../../lib/network/model/bill.ts";
import { encode, identity, matchCall } from "../../../helper/model_call.ts";
import { chunkFrame, frame, joined } from "../../../helper/model_wire_clouds.ts";
import { json, Spender } from "../../../helper/spender.ts";

const HOST = "bedrock-runtime.us-east-1.amazonaws.com";
const NOVA = "/model/amazon.nova-pro-v1:0";

function startCall(path: string, body: object = { messages: [{}] }) {
  const call = matchCall({ host: HOST, path: lenientPath(path) })!;
  return { call, read: call.request(encode(JSON.stringify(body)), undefined, identity)! };
}

Deno.test("hosts of Bedrock's runtime are a provider, others of AWS are none", () => {
  for (
    const host of [
      HOST,
      "bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
      "bedrock-runtime.cn-north-1.amazonaws.com.cn",
      "bedrock-runtime.us-east-1.api.aws",
      "vpce-0a-b.bedrock-runtime.us-east-1.vpce.amazonaws.com",
      "bedrock-mantle.us-east-1.api.aws",
    ]
  ) assertEquals(providerOf(host), "bedrock", host);
  for (
    const host of ["bedrock.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", `${HOST}.evil.example`]
  ) {
    assertEquals(providerOf(host), undefined, host);
  }
});

Deno.test("the model is the one of the path, encoded or not, whatever the body names", () => {
  const arn =
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-opus-4-1-20250805-v1:0";
  for (const id of [arn, encodeURIComponent(arn)]) {
    for (const method of ["invoke", "converse-stream"]) {
      const { read } = startCall(`/model/${id}/${method}`, { messages: [{}], model: "claude-haiku-4-5" });
      assertEquals(read.draft.model!.request.model, arn);
      assertEquals([read.fault(), read.bill().parts[0].model], [undefined, arn]);
    }
  }
});

Deno.test("on Vertex AI a call is counted as one of the path's model", () => {
  const path = "/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-4-1:rawPredict";
  const call = matchCall({ host: "aiplatform.googleapis.com", path })!;
  const body = { model: "claude-haiku-4-5", max_tokens: 9, messages: [{}] };
  const read = call.request(encode(JSON.stringify(body)), undefined, identity)!;
  assertEquals(read.bill().parts[0].model, "claude-opus-4-1");
  assertStringIncludes(read.fault()!, "several models");
});

Deno.test("Claude costs at Bedrock what it costs at Anthropic, and other makers' models have no price", () => {
  const cases: [id: string, micros: number | undefined][] = [
    ["anthropic.claude-sonnet-4-5-20250929-v1:0", 4500],
    ["global.anthropic.claude-sonnet-4-5-20250929-v1:0", 4500],
    ["arn:aws:bedrock:eu-west-1::foundation-model/anthropic.claude-3-5-haiku-20241022-v1:0", 1200],
    [
      "anthropic.claude-3-haiku-20240307-v1:0:200k",
      BUILT_IN_PRICES.cost("anthropic", "claude-3-haiku", {
        input: 1000,
        output: 100,
      })!.micros,
    ],
    [
      "us.anthropic.claude-opus-4-6-v1",
      BUILT_IN_PRICES.cost("anthropic", "claude-opus-4-6", {
        input: 1000,
        output: 100,
      })!.micros,
    ],
    ["us.amazon.nova-pro-v1:0", undefined],
    ["meta.llama3-3-70b-instruct-v1:0", undefined],
    ["arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", undefined],
  ];
  for (const [id, micros] of cases) {
    assertEquals(BUILT_IN_PRICES.cost("bedrock", id, { input: 1000, output: 100 })?.micros, micros, id);
  }
  assertEquals(BUILT_IN_PRICES.cost("bedrock", cases[0][0], { input: 1 }, "priority"), undefined);
});

Deno.test("an answer without counts in its body has those of its head", () => {
  const { call } = startCall("/model/meta.llama3-3-70b-instruct-v1:0/invoke", { prompt: "hi" });
  call.head(200, [
    ["content-type", "application/json"],
    ["x-amzn-bedrock-input-token-count", "12"],
    ["x-amzn-bedrock-output-token-count", "3"],
  ]);
  call.chunk(encode('{"generation":"a","stop_reason":"stop"}'));
  const { input_tokens, output_tokens, stop_reason } = call.end()!;
  assertEquals([input_tokens, output_tokens, stop_reason], [12, 3, "stop"]);
  assert(call.use(true).complete);
});

Deno.test("a damaged, cut or endless binary stream is not complete", async (t) => {
  const whole = joined([frame("messageStart", {}), frame("metadata", { usage: { outputTokens: 1 } })]);
  const endless = new Uint8Array(12);
  new DataView(endless.buffer).setUint32(0, LINE_MAX + 1);
  const streams: Record<string, Uint8Array> = {
    "cut in a message": whole.slice(0, -1),
    "cut between messages": frame("messageStart", {}),
    "too long": endless,
    ...Object.fromEntries(whole.keys().map((at) => [`byte ${at}`, whole.with(at, whole[at] ^ 1)])),
  };
  const readAs = (bytes: Uint8Array) => {
    const { call } = startCall(`${NOVA}/converse-stream`);
    call.head(200, [["content-type", "application/vnd.amazon.eventstream"]]);
    call.chunk(bytes);
    const response = call.end()!;
    return { response, complete: call.use(true).complete };
  };
  assert(readAs(whole).complete);
  for (const [what, bytes] of Object.entries(streams)) {
    await t.step(what, () => {
      const { response, complete } = readAs(bytes);
      assertEquals(complete, false);
      if (what !== "cut between messages") assertEquals(response.stop_reason, PARSE_ERROR);
    });
  }
});

Deno.test("an invoked stream ends with its counts", () => {
  const { call } = startCall(`${NOVA}/invoke-with-response-stream`);
  call.head(200, [["content-type", "application/vnd.amazon.eventstream"]]);
  call.chunk(chunkFrame({ messageStart: {} }));
  assertEquals(call.use(true).complete, false);
  call.chunk(chunkFrame({ "amazon-bedrock-invocationMetrics": { inputTokenCount: 4, outputTokenCount: 5 } }));
  const { input_tokens, output_tokens } = call.end()!;
  assertEquals([input_tokens, output_tokens, call.use(true).complete], [4, 5, true]);
});

Deno.test("what a call of Bedrock can use", () => {
  const bill = (body: Record<string, unknown>, family = "bedrock.converse", tiers: string[] = []) =>
    billOf({ family, operation: "converse", model: "m", body, size: 100, tiers });
  const inferenceConfig = { maxTokens: 10 };
  assertEquals(bill({ inferenceConfig }).named, 10);
  assertEquals(bill({ inferenceConfig, additionalModelRequestFields: { max_tokens: 99 } }).named, 99);
  assertEquals(bill({ max_tokens: 10 }, "bedrock.invoke").named, undefined);
  assert(
    bill({ messages: [{ image: { source: { s3Location: { uri: "s3://b/k" } } } }] }).parts[0].input > 100,
  );
  assertStringIncludes(bill({ serviceTier: { type: "priority" } }).unpriced!, "priority");
  assertStringIncludes(bill({ performanceConfig: { latency: "optimized" } }).unpriced!, "optimized");
  assertStringIncludes(bill({}, "bedrock.invoke", ["priority"]).unpriced!, "priority");
  for (const path of ["/async-invoke", `${NOVA}/invoke-with-bidirectional-stream`]) {
    assert(startCall(path).read.bill().fault, path);
  }
  assertEquals(startCall(`${NOVA}/count-tokens`).read.bill().parts, []);
});

Deno.test("a budget stops a call of Bedrock before it goes out", async () => {
  const usage = { inputTokens: 900, outputTokens: 200 };
  await using spender = await Spender.open(
    HOST,
    { tokens: 1000 },
    () => json({ stopReason: "end_turn", usage }),
    {
      models: new ModelReader(),
    },
  );
  const body = { messages: [], inferenceConfig: { maxTokens: 10 } };
  assertEquals((await spender.ask(`${NOVA}/converse`, body)).status, 200);
  const { status } = await spender.ask(`${NOVA}/converse`, body);
  assertEquals([status, spender.received.length, spender.used], [403, 1, 1100]);
});
