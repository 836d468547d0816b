/** Rules by which calls are counted: their documentation, and what they make of unusual requests. */
import { assert, assertEquals } from "@std/assert";
import { billOf, withUsage } from "../../../../lib/network/model/bill.ts";
import COUNTING from "../../../../lib/network/model/counting.json" with { type: "json" };
import { operationOf } from "../../../../lib/network/model/operation.ts";
import { fromRoot } from "../../../helper/repo.ts";

Deno.test("docs/guides/budgets.md has a row for each kind, with how it is counted", async () => {
  const rows = (await Deno.readTextFile(fromRoot("docs/guides/budgets.md"))).split("\n").filter((line) =>
    line.startsWith("|")
  );
  const words: Record<string, string[]> = { usage: ["counted"], free: ["free"], refused: ["refused"] };
  for (const [name, { by }] of Object.entries(COUNTING.kinds)) {
    const row = rows.find((line) => line.split("|")[1].includes(`\`${name}\``));
    const cell = row?.split("|")[3].trim() ?? "";
    assert(words[by].some((word) => cell.startsWith(word)), `${name}: ${row}`);
  }
});

Deno.test("every operation of a provider is of a kind", () => {
  const paths = [
    "/v1/messages/count_tokens",
    "/v1/messages/batches",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "/v1/embeddings",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/images/variations",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/videos",
    "/v1/fine_tuning/jobs",
    "/v1/threads/t/runs",
    "/v1/evals",
    "/v1/graders/run",
    "/v1/evaluation",
    "/v1beta/interactions",
    "/v1/realtime/calls",
    "/v1/batches",
    "/v1beta/cachedContents",
    "/v1/files",
    "/v1beta/models/m:predict",
    "/v1beta/models/m:batchGenerateContent",
  ];
  const names = paths.map((path) => operationOf(path).name);
  assertEquals(names.filter((name) => !(name in COUNTING.kinds)), []);
});

Deno.test("a batch has a part for each model, and a file beside its requests is a fault", () => {
  const requests = [
    { params: { model: "a", max_tokens: 10 } },
    { params: { model: "b", max_tokens: 20 } },
    { params: { model: "a", max_tokens: 30, service_tier: "priority" } },
  ];
  const bill = (body: Record<string, unknown>, operation: string) =>
    billOf({ family: "other", operation, model: "x", body, size: 100 });
  const { parts, answers, unpriced } = bill({ requests }, "messages.batches");
  assertEquals([parts, answers], [[
    { model: "a", input: 100, output: 40 },
    { model: "b", input: 100, output: 20 },
  ], 3]);
  assert(unpriced?.includes("priority"));
  assert(bill({ requests: [] }, "messages.batches").fault);
  assert(bill({ requests, input_file_id: "f" }, "batches").fault);
  assert(bill({ inputConfig: { gcsSource: {} }, requests }, "batches").fault);
});

Deno.test("a body that asks for counts is otherwise the same", () => {
  const text = ' {"seed":12345678901234567890,"stream":true}';
  assertEquals(
    withUsage(text, JSON.parse(text)),
    ' {"stream_options":{"include_usage":true},"seed":12345678901234567890,"stream":true}',
  );
  const own = { stream: true, stream_options: { include_usage: false, include_obfuscation: false } };
  assertEquals(JSON.parse(withUsage(JSON.stringify(own), own)).stream_options, {
    include_usage: true,
    include_obfuscation: false,
  });
});
