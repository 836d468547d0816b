/** Backtest of a file: whatever its lines are, the good ones count and the bad ones are told. */
import { assert, assertEquals } from "@std/assert";
import type { Check } from "../../../lib/detection/replay/check.ts";
import { checkEvents, STRICT_LINES } from "../../../lib/detection/replay/check.ts";
import { junit } from "../../../lib/detection/replay/junit.ts";
import { LINE_MAX, readLines } from "../../../lib/detection/replay/lines.ts";
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

/** Checks a file; messages without its path. */
function check(content: string | Uint8Array, options = {}): Promise<Check["report"] & { said: string[] }> {
  return inFile(content, async (path) => {
    const { report } = await checkEvents(PACK, path, options);
    return { ...report, said: report.diagnostics.map(({ message }) => message.replace(`${path}:`, "")) };
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

Deno.test("a bad line is told with its number, and hides no good one", async () => {
  const bad: [string, string][] = [
    ["not json", "not JSON"],
    ['{"schema": "sbx.policy-context-fixture.v1"', "not JSON: it ends too early"],
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
      "context.http.request.hots: no event has this field; did you mean http.request.host?",
    ],
    [line(2, { port: "443" }), "context.http.request.port: must be a number"],
    [line(2, { host: "x" }).replace("http.request", "http.reqest"), 'did you mean "http.request"?'],
    [line(2, { host: "x" }).replace('"corpus"', '"corpse"'), "event_ref: "],
    [line(2, { host: "x" }).replace('"context"', '"extra":1,"context"'), "extra: a fixture has no such key"],
    [line(2, { host: "x" }, ["x"]).replace('["x"]', "[7]"), "expected_labels: must be a list of text"],
    [HIT + HIT, "not JSON: something stands after its end"],
    ['{"__proto__":{"common":{}}}', "schema: must be"],
  ];
  for (const [text, expected] of bad) {
    const { ok, event_count, match_count, said } = await check(`${HIT}\n${text}\n${HIT}\n`);
    assertEquals([ok, event_count, match_count], [false, 2, 2], text);
    assert(said[0].startsWith("2: ") && said[0].includes(expected), `${text}: ${said[0]}`);
    assertEquals(said.length, 1);
  }
});

Deno.test("line ends, empty lines, a byte order mark and a last line without an end are no mistakes", async () => {
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

Deno.test("contexts alone are events too, such as sbx events --json prints", async () => {
  const { ok, findings } = await check(JSON.stringify(httpEvent(1, { host: "a.example" })) + "\n");
  assertEquals([ok, findings[0].event_id, findings[0].matched_fields], [
    true,
    "000000000001",
    { "http.request.host": "a.example" },
  ]);
});

Deno.test("bytes that are not UTF-8 spoil their line only", async () => {
  const encoder = new TextEncoder();
  const umlaut = line(1, { host: "ä.example", path: "\ufffd" });
  const bytes = [
    encoder.encode(`${umlaut}\n{"x":"`),
    new Uint8Array([0xff, 0xfe]),
    encoder.encode(`"}\n${umlaut}\n`),
  ];
  const { ok, match_count, said } = await check(new Uint8Array(bytes.flatMap((part) => [...part])));
  assertEquals([ok, match_count, said], [false, 2, ["2: bytes that are not UTF-8"]]);
});

Deno.test("a line of 20 MB is a line like any other, and one beyond the limit is told", async () => {
  const long = line(2, { host: "a.example", body: { state: "text", text: "x".repeat(20_000_000) } });
  const { ok, event_count, match_count } = await check(`${HIT}\n${long}\n${HIT}\n`);
  assertEquals([ok, event_count, match_count], [true, 3, 3]);
  const endless = "y".repeat(LINE_MAX + 1000);
  for (const file of [`${HIT}\n${endless}\n${HIT}\n`, `${HIT}\n${HIT}\n${endless}`]) {
    const { ok, event_count, said } = await check(file);
    assertEquals([ok, event_count], [false, 2]);
    assertEquals(said, [`${file.endsWith("y") ? 3 : 2}: longer than ${LINE_MAX} bytes`]);
  }
});

Deno.test("a file that grows is read to where it ended, and its last line to its end", async () => {
  const half = Math.floor(HIT.length / 2);
  await inFile(`${HIT}\n${HIT.slice(0, half)}`, async (path) => {
    const lines: string[] = [];
    let grown = false;
    await readLines(path, {
      line: (text) => void lines.push(text),
      fault: (_, message) => void lines.push(message),
      read() {
        // After the first read, while it is at work.
        if (!grown) {
          Deno.writeTextFileSync(path, `${HIT.slice(half)}\n${`${HIT}\n`.repeat(1000)}`, { append: true });
        }
        grown = true;
      },
    });
    assertEquals(lines, [HIT, HIT]);
  });
});

Deno.test("labels: missed and unexpected ones fail the check, line by line", async () => {
  const file = [
    line(1, { host: "a.example" }, ["host"]),
    line(2, { host: "a.example" }, ["exfil"]),
    line(3, { host: "c.example" }, ["exfil", "post"]),
    line(4, { host: "a.example", method: "POST" }, ["post"]),
    line(5, { host: "a.example" }, []),
    line(6, { host: "c.example" }, []),
    line(7, { host: "a.example" }),
  ].join("\n");
  const { ok, said, match_count } = await check(file);
  assertEquals([ok, match_count], [false, 6]);
  assertEquals(said, ["3: missed labels: exfil, post", "4: unexpected: host", "5: unexpected: host"]);
  // A file without any label, such as an exported session, expects nothing.
  assertEquals((await check(`${line(1, { host: "a.example" }, [])}\n`)).ok, true);
});

Deno.test("a million findings or faults are counted, and a bounded number is listed", async () => {
  const { findings, match_count, ok, said } = await check(`${HIT}\n`.repeat(500), { limit: 10 });
  assertEquals([findings.length, match_count, ok], [10, 500, true]);
  assert(said[0].includes("only the first 10 of 500 findings are listed"));
  const broken = await check(`{\n${HIT}\n`.repeat(300));
  assertEquals([broken.event_count, broken.said.length, broken.ok], [300, 101, false]);
  assert(broken.said[100].includes("… and 200 more bad lines"));
});

Deno.test("beyond the first lines only what matching needs is looked at", async () => {
  const odd = line(1, { host: "a.example", hots: "x" });
  const file = `${HIT}\n`.repeat(STRICT_LINES - 1) + `${odd}\n${odd}\nnot json\n`;
  const { said, event_count } = await check(file);
  assertEquals(event_count, STRICT_LINES);
  assertEquals(said.map((text) => text.split(":")[0]).slice(0, 2), [
    `${STRICT_LINES}`,
    `${STRICT_LINES + 2}`,
  ]);
});

Deno.test("JUnit: a case for each labelled line, and text that XML cannot hold", async () => {
  const xml = await inFile(
    `${line(1, { host: "a.example" }, ["host"])}\n${
      line(2, { host: "c.example" }, ['<&"\u0001'])
    }\nnot json\n`,
    async (path) => junit(await checkEvents(PACK, path), "a&b.jsonl"),
  );
  assert(xml.includes('tests="3" failures="2"'), xml);
  assert(xml.includes('name="line 1 (e1)"/>'), xml);
  assert(xml.includes("missed labels: &#60;&#38;&#34;�"), xml);
  assert(xml.includes('classname="a&#38;b.jsonl" name="every line is an event">'), xml);
});
