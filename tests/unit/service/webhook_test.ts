/**
 * The webhook of findings: Slack's and Teams' forms by their publishers' own types and parser and by their
 * published limits, and delivery to a real receiver.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { KnownBlock } from "@slack/types";
import cards from "adaptivecards/dist/adaptivecards.js";
import { Ajv2020 } from "ajv/dist/2020.js";
import { join } from "node:path";
import { FindingSinks, type WebhookOptions } from "../../../lib/ledger/sink/mod.ts";
import { slackOf, teamsOf } from "../../../lib/ledger/sink/webhook.ts";
import { recordOf } from "../../../lib/ledger/sink/record.ts";
import { FindingNotifier } from "../../../lib/service/contract/finding_notice.ts";
import type { DetectionFinding } from "../../../lib/detection/mod.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { eventually } from "../../helper/sbx.ts";

function finding(change: Partial<DetectionFinding> = {}): DetectionFinding {
  return {
    finding_id: "finding-000000000001-x",
    event_id: "000000000001",
    rule_id: "credential-decoy",
    pack_id: "sbx.builtin",
    title: "a decoy credential was used: body",
    severity: "critical",
    confidence: "high",
    tags: [],
    ...change,
  };
}

const EVENT = requestEvent("http.request");
/** Titles that a guest could bring about. */
const TITLES = [
  "a decoy credential was used: body",
  "<!channel> <https://evil.example|click> & [x](https://evil.example) *b*",
  "",
  "\u001b[2J\n\n\u0000",
  "😀".repeat(4000),
  "x".repeat(50_000),
];

for (const [form, make] of Object.entries({ slack: slackOf, teams: teamsOf })) {
  Deno.test(`every message is one that ${form} takes, whatever the guest chose`, async () => {
    const schema = JSON.parse(await Deno.readTextFile(`fixtures/webhook/${form}.schema.json`));
    const validate = new Ajv2020({ allErrors: true }).compile(schema);
    for (const title of TITLES) {
      for (const vm_name of ["dev", undefined]) {
        const made_by = { user: "ann", device: "desk", client: "cli" };
        const message = make(recordOf(finding({ title }), EVENT, { vm_name, made_by }));
        assert(validate(message), JSON.stringify(validate.errors));
        // Where Slack and Teams read markup, the guest's is not.
        if (form === "slack") assert(!(message as { text: string }).text.includes("<"));
        else assert(!JSON.stringify(message).includes('"TextBlock"'));
        assertEquals(
          new TextDecoder().decode(new TextEncoder().encode(JSON.stringify(message))),
          JSON.stringify(message),
        );
        assertStringIncludes(JSON.stringify(message), `sbx why ${EVENT.common.event_id}`);
      }
    }
    assert(!validate({ text: "<!channel>", type: "other" }));
  });
}

/**
 * Everything that Microsoft's own renderer of cards finds wrong with one for a
 * client of version 1.4, as Teams is.
 */
function cardProblems(card: unknown): string[] {
  const context = new cards.SerializationContext(cards.Versions.v1_4);
  const parsed = new cards.AdaptiveCard();
  parsed.parse(card, context);
  const events = Array.from({ length: context.eventCount }, (_, at) => context.getEventAt(at));
  return [...events, ...parsed.validateProperties().validationEvents].map(({ message }) => message);
}

Deno.test("Microsoft's own parser of cards reads each of them whole, and Slack's own types have its blocks", () => {
  for (const title of TITLES) {
    const record = recordOf(finding({ title }), EVENT, { vm_name: "dev" });
    // Judged by the compiler: @slack/types are the publisher's.
    const slack: { text: string; blocks: KnownBlock[] } = slackOf(record);
    assertEquals(slack.blocks.map(({ type }) => type), ["header", "section", "section"]);
    const { contentType, content } = teamsOf(record).attachments[0];
    assertEquals(contentType, "application/vnd.microsoft.card.adaptive");
    assertEquals(cardProblems(content), []);
    const parsed = new cards.AdaptiveCard();
    parsed.parse(content);
    assertEquals(parsed.toJSON().body.length, content.body.length, "nothing of it was left out");
    for (
      const wrong of [
        { version: "9.9" },
        { body: [{ type: "Banner" }] },
        { body: [{ type: "RichTextBlock", inlines: [{ type: "TextRun", text: "x", size: "huge" }] }] },
      ]
    ) assertEquals(cardProblems({ ...content, ...wrong }).length, 1);
  }
});

interface Hooked {
  file: string;
  /** bodies that the receiver got */
  got: Record<string, unknown>[];
  answer: { status: number };
  problems: string[];
  open(options?: Partial<WebhookOptions>): Promise<FindingSinks>;
}

const SECRET = "T0/B0/secret-of-the-hook";

async function hooked(work: (hooked: Hooked) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  const got: Record<string, unknown>[] = [];
  const answer = { status: 200 };
  const problems: string[] = [];
  await using server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const body = await request.json();
    if (answer.status === 200 && new URL(request.url).pathname === `/${SECRET}`) got.push(body);
    return new Response("ok", { status: answer.status });
  });
  const file = join(dir, "hook");
  await Deno.writeTextFile(file, `http://127.0.0.1:${server.addr.port}/${SECRET}\n`, { mode: 0o600 });
  try {
    const open = (options: Partial<WebhookOptions> = {}) =>
      FindingSinks.open({
        dir: join(dir, "sinks"),
        backoff: { firstMs: 5, maxMs: 20 },
        onProblem: (problem) => problems.push(problem),
        webhook: { file, form: "json", severity: "high", ...options },
      });
    await work({ file, got, answer, problems, open });
    for await (const { name } of Deno.readDir(join(dir, "sinks", "webhook"))) {
      const text = await Deno.readTextFile(join(dir, "sinks", "webhook", name)).catch(() => "");
      assert(!text.includes(SECRET), name);
    }
    assert(!problems.join().includes(SECRET), "the address is a secret");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("new findings of the severity and up are sent, also with routes to other sinks", () =>
  hooked(async ({ got, open }) => {
    const sinks = await open();
    sinks.send(finding({ finding_id: "low", severity: "medium" }), EVENT);
    sinks.send(finding({ finding_id: "update" }), EVENT, { is_update: true });
    sinks.send(finding({ finding_id: "excepted" }), EVENT, { exception: "e" });
    sinks.send(finding({ finding_id: "high", severity: "high", export_routes: ["otlp"] }), EVENT);
    sinks.send(finding({ finding_id: "critical" }), EVENT);
    await eventually("both arrive", () => got.length === 2);
    assertEquals(got.map((each) => (each.finding as DetectionFinding).finding_id), ["high", "critical"]);
    await sinks.close();
  }));

Deno.test("a receiver that was away gets its findings later, also after a restart", () =>
  hooked(async ({ got, answer, problems, open }) => {
    answer.status = 503;
    const sinks = await open({ form: "slack" });
    sinks.send(finding(), EVENT);
    await eventually("it failed", () => problems.length > 0);
    assertStringIncludes(problems[0], "the webhook responded with status 503");
    await sinks.close(0);
    answer.status = 200;
    const again = await open({ form: "slack" });
    await eventually("it arrives", () => got.length === 1);
    assertEquals(Object.keys(got[0]), ["text", "blocks"]);
    await again.close();
  }));

Deno.test("an address that others may read, or that is not safe, gets nothing, and no message has it", () =>
  hooked(async ({ file, got, problems, open }) => {
    const bad: [text: string | undefined, mode: number, problem: string][] = [
      [undefined, 0o644, "can be read by other users (mode 0644)"],
      [`http://hooks.example.com/${SECRET}`, 0o600, "must have one https URL"],
      [`https://u:${SECRET}@hooks.example.com/`, 0o600, "must have one https URL"],
      [`file:///${SECRET}`, 0o600, "must have one https URL"],
      [SECRET, 0o600, "must have one https URL"],
      [SECRET.repeat(1000), 0o600, "is not a file with one URL"],
    ];
    const address = await Deno.readTextFile(file);
    for (const [text, mode, problem] of bad) {
      await Deno.writeTextFile(file, text ?? address);
      await Deno.chmod(file, mode);
      problems.length = 0;
      const sinks = await open();
      sinks.send(finding(), EVENT);
      await eventually("it is reported", () => problems.length > 0);
      assertStringIncludes(problems[0], problem);
      await sinks.close(0);
    }
    assertEquals(got, []);
    await Deno.remove(file);
    problems.length = 0;
    const sinks = await open();
    await eventually("it is reported", () => problems.length > 0);
    assertStringIncludes(problems[0], "cannot be read");
    // Everything that waited is sent once the file is right.
    await Deno.writeTextFile(file, address, { mode: 0o600 });
    await eventually("they arrive", () => got.length === bad.length);
    await sinks.close();
  }));

Deno.test("findings of the severity are shown on the desktop, a flood once, and an answer always", async () => {
  const shown: { title: string; body: string }[] = [];
  const notifier = new FindingNotifier({
    isOn: () => true,
    least: () => "high",
    board: () => Promise.resolve({ show: (texts) => Promise.resolve(void shown.push(texts)) }),
    report: () => {},
  });
  notifier.take("dev", finding({ severity: "medium" }));
  for (let at = 0; at < 20; at++) notifier.take("dev", finding({ title: "<b>x</b>" }));
  notifier.take("dev", finding({ rule_id: "response", title: "answered with block; sbx lift dev lifts it" }));
  await eventually("both are shown", () => shown.length === 2);
  assertEquals(shown.map(({ title }) => title), Array(2).fill("sbx: critical finding in dev"));
  assertStringIncludes(shown[0].body, "&lt;b&gt;x&lt;/b&gt;\nsbx why 000000000001");
  assertStringIncludes(
    shown[1].body,
    "sbx lift dev lifts it\nsbx why 000000000001\n19 more: sbx findings dev",
  );
});
