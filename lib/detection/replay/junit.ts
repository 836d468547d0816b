import type { Check } from "./check.ts";

/** A check as JUnit XML: one case a labelled line, and one that says whether every line could be read. */
export function junit({ report, results }: Check, path: string): string {
  const unread = report.diagnostics.filter(({ path: at }) =>
    !results.some(({ line }) => at === `${path}:${line}`)
  )
    .filter(() => !report.ok).map(({ message }) => message);
  const cases = [
    testCase(path, "every line is an event", unread.join("\n")),
    ...results.map(({ line, event_id, message }) =>
      testCase(path, `line ${line}${event_id ? ` (${event_id})` : ""}`, message)
    ),
  ];
  const failures = results.filter(({ message }) => message).length + (unread.length ? 1 : 0);
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<testsuite name="${
      xml(`${report.pack_id} ${report.pack_version}`)
    }" tests="${cases.length}" failures="${failures}" ` +
    `time="${report.timing.duration_ms / 1000}">`,
    ...cases,
    `</testsuite>`,
    "",
  ].join("\n");
}

function testCase(path: string, name: string, message?: string): string {
  const open = `  <testcase classname="${xml(path)}" name="${xml(name)}"`;
  return message ? `${open}>\n    <failure message="${xml(message)}"/>\n  </testcase>` : `${open}/>`;
}

/** Text within an attribute; what XML cannot hold is replaced. */
function xml(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "�").replace(
    /[<>&"\n]/g,
    (char) => `&#${char.charCodeAt(0)};`,
  );
}
