/** Backtest of a file: valid lines are evaluated, invalid ones are reported. */
import { assert, assertEquals } from "@std/assert";
import { LINE_MAX, readLines } from "../../../lib/detection/replay/lines.ts";
import { type Check, checkEvents, junitOf, STRICT_LINES } from "../../../lib/detection/replay/mod.ts";
import { httpEvent, ir, rule } from "../../helper/detection.ts";

const PACK = ir([
  rule("host", { "http.request.host": ["a.example", "ä.example"] }, { tags: ["exfil"] }),
  rule("post", { "http.request.method": "POST" }),
]);

async function inFile<T>(content: string | Uint8Array, run: (path: string) => Promise<T>): Promise<T> {
  const path = await Deno.makeTempFile({ suffix: ".jsonl" });
  try {
    await Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);
    return await run(path);
  } finally {
    await Deno.remove(path);
  }
}

/** Checks a file; `messages` are the diagnostics without its path. */
function check(
  content: string | Uint8Array,
  options = {},
): Promise<Check["report"] & { messages: string[] }> {
  return inFile(content, async (path) => {
    const { report } = await checkEvents(PACK, path, options);
    return { ...report, messages: report.diagnostics.map(({ message }) => message.replace(`${path}:`, "")) };
  });
}

const line = (id: number, request: Record<string, unknown>, labels?: string[]) =>
  JSON.stringify({
    schema: "sbx.policy-context-fixture.v1",
    event_ref: { corpus: "c", session_id: "s", event_id: `e${id}`, sequence: id, timestamp_unix_ms: 1 },
    ...(labels && { expected_labels: labels }),
    context: { schema_version: 1, common: { event_type: "http.request" }, http: { request } },
  });
const HIT = line(1, { host: "a.example" });

Deno.test("an invalid line is reported with its number and does not affect the others", async () => {
  const cases: [string, string][] = [
    ["not json", "invalid JSON"],
    ['{"schema": "sbx.policy-context-fixture.v1"', "invalid JSON: unexpected end of input"],
    ["[1]", "must be an object"],
    ["null", "must be an object"],
    ['{"schema":"sbx.policy-context-fixture.v2","context":{}}', "schema: must be"],
    ['{"schema":"sbx.policy-context-fixture.v1"}', "context: is missing"],
    ['{"schema":"sbx.policy-context-fixture.v1","context":7}', "context: must be an object"],
    [
      '{"schema":"sbx.policy-context-fixture.v1","context":{"common":{}}}',
      "context.common.event_type: is missing",
    ],
    [
      line(2, { hots: "x" }),
      'context.http.request.hots: unknown event field; did you mean "http.request.host"?',
    ],
    [line(2, { port: "443" }), "context.http.request.port: must be a number"],
    [line(2, { host: "x" }).replace("http.request", "http.reqest"), 'did you mean "http.request"?'],
    [line(2, { host: "x" }).replace('"corpus"', '"corpse"'), "event_ref: "],
    [
      line(2, { host: "x" }).replace('"context"', '"extra":1,"context"'),
      "extra: unknown key; use schema, event_ref, expected_labels, context",
    ],
    [line(2, { host: "x" }, ["x"]).replace('["x"]', "[7]"), "expected_labels: must be a list of strings"],
    [HIT + HIT, "invalid JSON: text after the end of the value, or a missing comma"],
    ['{"__proto__":{"common":{}}}', 'a key "__proto__"'],
  ];
  for (const [text, expected] of cases) {
    const { ok, event_count, match_count, messages } = await check(`${HIT}\n${text}\n${HIT}\n`);
    assertEquals([ok, event_count, match_count], [false, 2, 2], text);
    assert(messages[0].startsWith("2: ") && messages[0].includes(expected), `${text}: ${messages[0]}`);
    assertEquals(messages.length, 1);
  }
});

Deno.test("headers that are no lists are read, and end no check", async () => {
  for (const value of [443, "tool", null, true, [], { a: 1 }]) {
    const headers = { "X-Odd": value, "x-odd": ["1"], host: value };
    const { ok, event_count, match_count, messages } = await check(
      `${HIT}\n${line(2, { host: "a.example", headers })}\n${line(3, { host: "A.example.", headers })}\n`,
    );
    assertEquals([ok, event_count, match_count, messages], [true, 3, 3, []], JSON.stringify(value));
  }
});

Deno.test("line ends, empty lines, a byte order mark and a missing final line end are accepted", async () => {
  const files = [
    `${HIT}\n${HIT}\n`,
    `${HIT}\n${HIT}`,
    `${HIT}\r\n${HIT}\r\n`,
    `\ufeff${HIT}\n\n  \n\r\n${HIT}\n\n`,
  ];
  for (const file of files) {
    const { ok, event_count, match_count } = await check(file);
    assertEquals([ok, event_count, match_count], [true, 2, 2], JSON.stringify(file));
  }
  assertEquals((await check("")).event_count, 0);
});

Deno.test("bare contexts are accepted, such as the output of sbx events --json", async () => {
  const { ok, findings } = await check(JSON.stringify(httpEvent(1, { host: "a.example" })) + "\n");
  assertEquals([ok, findings[0].event_id, findings[0].matched_fields], [
    true,
    "000000000001",
    { "http.request.host": "a.example" },
  ]);
});

Deno.test("invalid UTF-8 affects only its line", async () => {
  const encoder = new TextEncoder();
  const umlaut = line(1, { host: "ä.example", path: "\ufffd" });
  const bytes = [
    encoder.encode(`${umlaut}\n{"x":"`),
    new Uint8Array([0xff, 0xfe]),
    encoder.encode(`"}\n${umlaut}\n`),
  ];
  const { ok, match_count, messages } = await check(new Uint8Array(bytes.flatMap((part) => [...part])));
  assertEquals([ok, match_count, messages], [false, 2, ["2: invalid UTF-8"]]);
});

Deno.test("a line of 20 MB is read, and one beyond the limit is reported", async () => {
  const long = line(2, { host: "a.example", body: { state: "text", text: "x".repeat(20_000_000) } });
  const { ok, event_count, match_count } = await check(`${HIT}\n${long}\n${HIT}\n`);
  assertEquals([ok, event_count, match_count], [true, 3, 3]);
  const endless = "y".repeat(LINE_MAX + 1000);
  for (const file of [`${HIT}\n${endless}\n${HIT}\n`, `${HIT}\n${HIT}\n${endless}`]) {
    const { ok, event_count, messages } = await check(file);
    assertEquals([ok, event_count], [false, 2]);
    assertEquals(messages, [`${file.endsWith("y") ? 3 : 2}: longer than ${LINE_MAX} bytes`]);
  }
});

Deno.test("a growing file is read up to its size at opening, plus the rest of that line", async () => {
  const half = Math.floor(HIT.length / 2);
  await inFile(`${HIT}\n${HIT.slice(0, half)}`, async (path) => {
    const lines: string[] = [];
    let isGrown = false;
    await readLines(path, {
      line: (text) => void lines.push(text),
      fault: (_, message) => void lines.push(message),
      read() {
        // Grow the file after the first read.
        if (!isGrown) {
          Deno.writeTextFileSync(path, `${HIT.slice(half)}\n${`${HIT}\n`.repeat(1000)}`, { append: true });
        }
        isGrown = true;
      },
    });
    assertEquals(lines, [HIT, HIT]);
  });
});

Deno.test("labels: missed labels and unexpected rules fail the check, line by line", async () => {
  const file = [
    line(1, { host: "a.example" }, ["host"]),
    line(2, { host: "a.example" }, ["exfil"]),
    line(3, { host: "c.example" }, ["exfil", "post"]),
    line(4, { host: "a.example", method: "POST" }, ["post"]),
    line(5, { host: "a.example" }, []),
    line(6, { host: "c.example" }, []),
    line(7, { host: "a.example" }),
  ].join("\n");
  const { ok, messages, match_count } = await check(file);
  assertEquals([ok, match_count], [false, 6]);
  assertEquals(messages, [
    "3: missed labels: exfil, post",
    "4: unexpected rules: host",
    "5: unexpected rules: host",
  ]);
  // A file without labels, such as an exported session, has no expectations.
  assertEquals((await check(`${line(1, { host: "a.example" }, [])}\n`)).ok, true);
});

Deno.test("all findings and faults are counted, and a limited number is listed", async () => {
  const { findings, match_count, ok, messages } = await check(`${HIT}\n`.repeat(500), { limit: 10 });
  assertEquals([findings.length, match_count, ok], [10, 500, true]);
  assert(messages[0].includes("10 of 500 findings are listed"));
  const broken = await check(`{\n${HIT}\n`.repeat(300));
  assertEquals([broken.event_count, broken.messages.length, broken.ok], [300, 101, false]);
  assert(broken.messages[100].includes("… and 200 more invalid lines"));
});

Deno.test("beyond the strict lines, only the fields needed to match are checked", async () => {
  const odd = line(1, { host: "a.example", hots: "x" });
  const file = `${HIT}\n`.repeat(STRICT_LINES - 1) + `${odd}\n${odd}\nnot json\n`;
  const { messages, event_count } = await check(file);
  assertEquals(event_count, STRICT_LINES);
  assertEquals(messages.map((text) => text.split(":")[0]).slice(0, 2), [
    `${STRICT_LINES}`,
    `${STRICT_LINES + 2}`,
  ]);
});

Deno.test("JUnit: one case per labelled line, with escaped text", async () => {
  const xml = await inFile(
    `${line(1, { host: "a.example" }, ["host"])}\n${
      line(2, { host: "c.example" }, ['<&"\u0001'])
    }\nnot json\n`,
    async (path) => junitOf(await checkEvents(PACK, path), "a&b.jsonl"),
  );
  assert(xml.includes('tests="3" failures="2"'), xml);
  assert(xml.includes('name="line 1 (e1)"/>'), xml);
  assert(xml.includes("missed labels: &#60;&#38;&#34;�"), xml);
  assert(xml.includes('classname="a&#38;b.jsonl" name="every line is an event">'), xml);
});
