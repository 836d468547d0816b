/**
 * Model calls at clouds that the host signs, or gives a token: events, prices and budgets as of every model.
 */
import { assert, assertEquals } from "@std/assert";
import { readGoogleFile } from "../../../../lib/credential/cloud/key_file.ts";
import { newCredential } from "../../../../lib/service/contract/credentials.ts";
import { BUILT_IN_PRICES, ModelReader } from "../../../../lib/network/model/mod.ts";
import { AWS_KEYS, AWS_SECRET, librarySigner } from "../../../helper/aws.ts";
import { accountFile, rsaKey } from "../../../helper/cloud.ts";
import { world } from "../../../helper/credential.ts";
import { json, Spender } from "../../../helper/spender.ts";

const BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com";
const CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const VERTEX = "europe-west1-aiplatform.googleapis.com";
const TOKEN = "ya29.c." + "a1B2".repeat(200);

const models = ({ net }: Spender) =>
  net.gate.entries.flatMap(({ event, outcome }) =>
    event.model
      ? [{ request: event.model.request, response: outcome?.response as Record<string, unknown> }]
      : []
  );

Deno.test(
  "a signed call of Bedrock is a model's: its event has the price, and a budget stops the next one unsigned",
  world([{ provider: "aws", secret: AWS_SECRET }], async ({ open }) => {
    const broker = await open(["aws"]);
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret } = broker.guestEnv();
    const usage = { inputTokens: 900, outputTokens: 200 };
    await using spender = await Spender.open(
      BEDROCK,
      { tokens: 1000 },
      () => json({ stopReason: "end_turn", usage }),
      { broker, models: new ModelReader() },
    );
    const path = `/model/${encodeURIComponent(CLAUDE)}/converse`;
    const body = JSON.stringify({ messages: [], inferenceConfig: { maxTokens: 10 } });
    const call = async () => {
      const { headers } = await librarySigner({ id, secret }, { service: "bedrock", region: "us-east-1" })
        .sign(
          {
            method: "POST",
            protocol: "https:",
            hostname: BEDROCK,
            path,
            query: {},
            headers: { host: BEDROCK },
            body,
          } as never,
        ) as unknown as { headers: Record<string, string> };
      const fields = Object.entries(headers).filter(([name]) => name !== "host").map((pair) =>
        pair.join(": ")
      );
      const client = await spender.send(path, body, fields);
      const { status } = await client.answer();
      client.close();
      return status;
    };
    assertEquals(await call(), 200);
    assert(spender.received[0].head.includes(`Credential=${AWS_KEYS.id}/`));
    await spender.net.idle();
    const [{ request, response }] = models(spender);
    assertEquals([request.provider, request.model], ["bedrock", CLAUDE]);
    const price = BUILT_IN_PRICES.cost("bedrock", CLAUDE, { input: 900, output: 200 })!;
    assert(price.micros > 0);
    assert(JSON.stringify(response).includes(`${price.micros}`), JSON.stringify(response));
    assertEquals([await call(), spender.received.length, spender.used], [403, 1, 1100]);
  }),
);

Deno.test(
  "a call of Vertex AI with a ref is a model's: its event has the price, and a budget stops the next one",
  world([], async ({ store, open }) => {
    const { terms, secret } = readGoogleFile(accountFile(await rsaKey("RS256")));
    const [{ ref }] = await store.add([newCredential({ provider: "gcp", secret, origin: { cloud: terms } })]);
    const broker = await open(["gcp"]);
    await broker.provide({ [ref]: { secret: TOKEN, expires_at: Date.now() + 3_600_000 } });
    const usageMetadata = { promptTokenCount: 900, candidatesTokenCount: 200, totalTokenCount: 1100 };
    await using spender = await Spender.open(
      VERTEX,
      { tokens: 1000 },
      () =>
        json({ candidates: [{ content: { parts: [{ text: "hi" }] }, finishReason: "STOP" }], usageMetadata }),
      { broker, models: new ModelReader() },
    );
    const path =
      "/v1/projects/p/locations/europe-west1/publishers/google/models/gemini-2.5-pro:generateContent";
    const call = async () => {
      const body = {
        contents: [{ role: "user", parts: [{ text: "hi" }] }],
        generationConfig: { maxOutputTokens: 10 },
      };
      const client = await spender.send(path, body, [`Authorization: Bearer ${ref}`]);
      const { status } = await client.answer();
      client.close();
      return status;
    };
    assertEquals(await call(), 200);
    assert(spender.received[0].head.includes(`Bearer ${TOKEN}`));
    await spender.net.idle();
    const [{ request, response }] = models(spender);
    assertEquals([request.provider, request.model], ["google", "gemini-2.5-pro"]);
    const price = BUILT_IN_PRICES.cost("google", "gemini-2.5-pro", { input: 900, output: 200 })!;
    assert(JSON.stringify(response).includes(`${price.micros}`), JSON.stringify(response));
    assertEquals([await call(), spender.received.length, spender.used], [403, 1, 1100]);
  }),
);
