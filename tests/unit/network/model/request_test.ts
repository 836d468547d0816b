/** Requests that receivers may read differently (docs/design/contracts/05-policy.md §5, "Models"). */
import { assertEquals } from "@std/assert";
import { readForm } from "../../../../lib/network/model/call.ts";
import { findAmbiguity } from "../../../../lib/network/model/json.ts";
import { JSON_DEPTH_MAX } from "../../../../lib/network/model/limit.ts";
import { namesOf } from "../../../../lib/network/model/name.ts";
import { openaiResponses } from "../../../../lib/network/model/openai.ts";
import { operationOf } from "../../../../lib/network/model/operation.ts";
import { Random } from "../../../helper/random.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("a JSON text is ambiguous when a key repeats in one object", async (t) => {
  const cases: [text: string, want: string | undefined][] = [
    ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}', undefined],
    ['{"a":"\\"a\\":","b":["a","a"],"c":"\\\\"}', undefined],
    ['{"a":"x","a" : 1}', 'its body repeats the key "a"'],
    ['[{"a":{"b":1,"c":2,"b":3}}]', 'its body repeats the key "b"'],
    ['{"\\u0061":1,"a":2}', 'its body repeats the key "a"'],
    ['{"a\\\\":1,"a\\\\":2}', 'its body repeats the key "a\\\\"'],
    ['{"":1,"":2}', 'its body repeats the key ""'],
    ["7", undefined],
    ["[".repeat(JSON_DEPTH_MAX) + "]".repeat(JSON_DEPTH_MAX), undefined],
    [
      "[".repeat(JSON_DEPTH_MAX + 1) + "]".repeat(JSON_DEPTH_MAX + 1),
      "its body is nested more than 200 deep",
    ],
  ];
  for (const [text, want] of cases) {
    await t.step(text.slice(0, 40), () => assertEquals(findAmbiguity(text), want));
  }
});

Deno.test("no text that JSON.stringify writes is ambiguous, and every added twin is found", () => {
  const random = new Random(7);
  const value = (depth: number): unknown => {
    if (depth > 3 || random.below(4) === 0) {
      return random.pick(["", '"', "\\", '\\"', 'a":', "{", "[", 1, null, "\ud83d\ude00"]);
    }
    const items = Array.from({ length: random.below(4) }, () => value(depth + 1));
    if (random.below(3) === 0) return items;
    return Object.fromEntries(items.map((item, at) => [`${random.pick(["a", '"', "\\", "é"])}${at}`, item]));
  };
  for (let round = 0; round < 2000; round++) {
    const text = JSON.stringify({ first: value(0), last: value(0) }, null, random.below(3));
    assertEquals(findAmbiguity(text), undefined, text);
    const twin = text.replace(/\}$/, ',"first":0}');
    assertEquals(findAmbiguity(twin), 'its body repeats the key "first"', twin);
  }
});

Deno.test("a form is read in its strict shape only", async (t) => {
  const part = (head: string, value: string) => `--b\r\n${head}\r\n\r\n${value}\r\n`;
  const field = (name: string, value: string) =>
    part(`Content-Disposition: form-data; name="${name}"`, value);
  const type = "multipart/form-data; boundary=b";
  const good = new Map([["model", "m"], ["a", "é"]]);
  const cases: [name: string, text: string, type: string, want: Map<string, string> | undefined][] = [
    ["fields", field("model", "m") + field("a", "é") + "--b--\r\n", type, good],
    ["a quoted boundary", field("model", "m") + field("a", "é") + "--b--", `${type.slice(0, -1)}"b"`, good],
    ["a list", field("a[]", "1") + field("a[]", "2") + "--b--", type, new Map([["a[]", "2"]])],
    [
      "a file",
      part('content-disposition: form-data; name="f"; filename="x"\r\ncontent-type: a/b', "\0") + "--b--",
      type,
      new Map([["f", ""]]),
    ],
    ["a repeated field", field("model", "m") + field("model", "n") + "--b--", type, undefined],
    ["text before", `x\r\n${field("model", "m")}--b--`, type, undefined],
    ["text after", `${field("model", "m")}--b--\r\nx`, type, undefined],
    ["no end", field("model", "m"), type, undefined],
    ["LF", (field("model", "m") + "--b--").replaceAll("\r", ""), type, undefined],
    [
      "an encoding",
      part('content-disposition: form-data; name="a"\r\ncontent-transfer-encoding: base64', "bQ==") +
      "--b--",
      type,
      undefined,
    ],
    [
      "a name with an escape",
      part('content-disposition: form-data; name="mo\\del"', "m") + "--b--",
      type,
      undefined,
    ],
    [
      "two names",
      part('content-disposition: form-data; name="a"; name="model"', "m") + "--b--",
      type,
      undefined,
    ],
    ["no boundary", field("model", "m") + "--b--", "multipart/form-data", undefined],
    ["a charset", field("model", "m") + "--b--", `${type}; charset=utf-16`, undefined],
  ];
  for (const [name, text, contentType, want] of cases) {
    await t.step(name, () => assertEquals(readForm(bytes(text), contentType).fields, want));
  }
});

/** A request of the Responses API with a tool among its input. */
const added = (tool: object) => ({ model: "a", input: [{ type: "additional_tools", tools: [tool] }] });

Deno.test("tools among the input and in namespaces are counted", () => {
  const tools = [{ type: "namespace", tools: [{ type: "function" }, { type: "custom" }] }, {
    type: "function",
  }];
  const body = { ...added(tools[0]), tools };
  assertEquals(openaiResponses.readRequest(body, null).tools_count, 5);
});

Deno.test("a model's name is found in path, query and body", async (t) => {
  const cases: [path: string, query: string, provider: string, body: object, names: string[] | undefined][] =
    [
      ["/v1/responses", "", "openai", { model: "a" }, ["a"]],
      ["/v1/responses", "model=a", "openai", { model: "a" }, ["a"]],
      ["/v1/responses", "model=b", "openai", { model: "a" }, undefined],
      ["/v1beta/models/a:countTokens", "", "google", { model: "models/a" }, ["a"]],
      ["/v1beta/models/a:countTokens", "", "google", { model: "models/b" }, undefined],
      ["/openai/deployments/a/chat/completions", "", "azure", { model: "b" }, ["a"]],
      ["/v1/chat/completions", "", "openai", { model: "a", tools: [{ type: "function", model: "b" }] }, [
        "a",
      ]],
      ["/v1/responses", "", "openai", added({ type: "image_generation", model: "b" }), undefined],
      ["/v1/responses", "", "openai", added({ type: "function", model: "b" }), ["a"]],
      [
        "/v1/responses",
        "",
        "openai",
        added({ type: "namespace", tools: [{ type: "x", model: "b" }] }),
        undefined,
      ],
      [
        "/v1/responses",
        "",
        "openai",
        { model: "a", input: [{ type: "configuration_update", model: "b" }] },
        undefined,
      ],
      ["/v1/chat/completions", "", "openai", { model: "a", models: ["a", "b"] }, undefined],
      ["/v1/chat/completions", "", "openai", { model: null }, []],
      ["/v1/chat/completions", "", "openai", { model: "é" }, undefined],
      ["/v1/chat/completions", "", "openai", { model: "a", Model: "b" }, undefined],
    ];
  for (const [path, query, provider, body, want] of cases) {
    await t.step(`${path} ${JSON.stringify(body)}`, () => {
      const { names, fault } = namesOf({ path, query, provider }, body as Record<string, unknown>, false);
      assertEquals(fault === undefined ? [...names] : undefined, want);
    });
  }
});

Deno.test("the operation follows from the path", () => {
  const cases: [path: string, name: string, naming: string][] = [
    ["/v1/messages/batches", "messages.batches", "anywhere"],
    ["/v1/messages/count_tokens", "messages.count_tokens", "top"],
    ["/v1/images/edits", "images.edits", "top"],
    ["/v1/audio/speech", "audio.speech", "top"],
    ["/upload/v1beta/files", "files", "none"],
    ["/v1/uploads/upload_1/parts", "files", "none"],
    ["/v1beta/models/gemini:batchEmbedContents", "batchEmbedContents", "top"],
    ["/v1/realtime/client_secrets", "realtime", "anywhere"],
    ["/v1/messages/batches/b/cancel", "other", "perhaps"],
  ];
  for (const [path, name, naming] of cases) assertEquals(operationOf(path), { name, naming } as object, path);
});
