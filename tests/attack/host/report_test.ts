/** Texts of a guest in a report: they stay texts in a page, in Markdown and on a terminal. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { writeReport } from "../../../cmd/sbx/record/report.ts";
import { html, reportHtml } from "../../../cmd/sbx/record/report_html.ts";
import { markdown, reportMarkdown, reportText } from "../../../cmd/sbx/record/report.ts";
import type { Report } from "../../../lib/client/api/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";

const HOSTILE = [
  `</td></table></style><script>alert(1)</script>`,
  `" onload="alert(1)" x='`,
  `<img src=//e.example/x onerror=alert(1)>`,
  `a&lt;b&#60;`,
  `\x1b[2J\x1b]0;title\x07\x9b31m\r\nvalid, sealed`,
  `\u202egpj.exe\u202c\u2066x\u2069\u200b\u{e0041}`,
  `| a | b |\n\n# heading\n| --- |`,
  "[x](https://e.example) ![i](//e.example) <x://y>",
  "www.e.example https://e.example mail@e.example",
  "`code` **bold** _x_ ~~y~~ $z$ \\| \\",
  `=HYPERLINK("https://evil.example","x")`,
  "+1+cmd|' /C calc'!A0",
  "\ud800 lone",
];

/** A report with one text in every field that holds one. */
function reportOf(text: string): Report {
  const vm = text;
  const finding = { severity: text, title: text, rule_id: text, event_id: text, decision: text };
  return {
    schema: "sbx.report.v1",
    generated_unix_ms: 0,
    events: 1,
    sessions: [{
      id: text,
      vm,
      profile_id: text,
      created_at: "2026-11-22T00:00:00Z",
      user: text,
      client: text,
      events: 1,
      record: { state: "invalid", sealed: false, reason: text },
    }],
    programs: [{ vm, executable: text, runs: 1, refused: 0 }],
    asks: [{ vm, at: "2026-11-22T00:00:00Z", subject: text, rule_id: text, status: text, answered_by: text }],
    left: [{
      vm,
      kind: "http",
      host: text,
      program: text,
      sent: 1,
      sent_bytes: 1,
      failed: 0,
      failed_bytes: 0,
      refused: 0,
      cached: 0,
      received_bytes: 0,
    }],
    models: [{
      vm,
      provider: text,
      model: text,
      calls: 1,
      refused: 0,
      input_tokens: 0,
      output_tokens: 0,
      cost_micros: 0,
    }],
    secrets: [{
      vm,
      credential_ref: text,
      provider: text,
      host: text,
      location: text,
      outcome: text,
      uses: 1,
    }],
    findings: [{ vm, at_unix_ms: 0, ...finding, state: text, verdict: text, subject: text }],
    refused: [{ vm, rule_id: text, event_type: text, events: 1 }],
    hours: [{ at_unix_ms: 0, events: 1, refused: 1 }],
    cut: [text],
  };
}

const MARK = "MARKMARK";

Deno.test("a page: texts of a guest are neither tags nor attributes, and nothing is loaded or run", async () => {
  const expected = await reportHtml(reportOf(MARK));
  assert(/content="default-src 'none'; style-src 'sha256-[^"']+'; base-uri 'none'/.test(expected));
  for (const text of HOSTILE) {
    const escaped = html(text);
    assert(!/[<>"']/.test(escaped), escaped);
    assert(!/&(?!(amp|lt|gt|quot|#39);)/.test(escaped), escaped);
    assertEquals((await reportHtml(reportOf(text))).replaceAll(escaped, MARK), expected, text);
  }
  assert(!/<script|javascript:|\son\w+=|\sstyle=|<(link|img|iframe|a)\b|url\(/i.test(expected));
});

Deno.test("Markdown: texts of a guest are no markup, no link and no row", () => {
  const expected = reportMarkdown(reportOf(MARK));
  for (const text of HOSTILE) {
    const escaped = markdown(text);
    assert(
      !/\n/.test(escaped) && !/(?<!\\)(\\\\)*[|<`[:!=@.*_#~$&]/.test(escaped.replaceAll(/\\[^]/g, "")),
      escaped,
    );
    assertEquals(reportMarkdown(reportOf(text)).replaceAll(escaped, MARK), expected, text);
  }
});

Deno.test("a terminal: texts of a guest neither move the cursor nor make lines", () => {
  const lines = reportText(reportOf(MARK)).split("\n").length;
  for (const text of HOSTILE) {
    const shown = reportText(reportOf(text));
    assertEquals(shown.split("\n").length, lines, text);
    assertEquals(plain(shown, true), shown);
  }
});

Deno.test("a file: a report takes the place of a link, and of no pipe, folder or device", async () => {
  const dir = await Deno.makeTempDir();
  const [pipe, victim, link] = ["pipe", "victim", "link"].map((name) => join(dir, name));
  await new Deno.Command("mkfifo", { args: [pipe] }).output();
  for (const path of [pipe, dir, "/dev/null", "/dev/stdout"]) {
    const before = await Deno.lstat(path);
    await assertRejects(() => writeReport(path, "x"), Error, "is not a file");
    assertEquals((await Deno.lstat(path)).ino, before.ino);
  }
  await Deno.writeTextFile(victim, "mine");
  await Deno.symlink(victim, link);
  await writeReport(link, "x");
  assertEquals([await Deno.readTextFile(victim), await Deno.readTextFile(link)], ["mine", "x"]);
  await Deno.remove(dir, { recursive: true });
});
