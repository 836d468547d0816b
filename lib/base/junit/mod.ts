/** JUnit XML: a suite of named cases with failures, for build servers. */

/** One test case. */
export interface JunitCase {
  name: string;
  /** failure message; the case passed if absent or empty */
  failure?: string;
  /** duration in `ms` */
  durationMs?: number;
}

/** A suite of cases. */
export interface JunitSuite {
  name: string;
  /** `classname` of every case, such as the path of the tested file */
  className: string;
  cases: readonly JunitCase[];
  /** duration in `ms` */
  durationMs?: number;
}

/** Formats a suite as an XML document. */
export function formatJunit({ name, className, cases, durationMs }: JunitSuite): string {
  const failures = cases.filter(({ failure }) => failure).length;
  return [
    `<?xml version="1.0" encoding="UTF-8"?>`,
    `<testsuite name="${escapeAttribute(name)}" tests="${cases.length}" failures="${failures}"${
      formatTime(durationMs)
    }>`,
    ...cases.map((testCase) => formatCase(testCase, className)),
    `</testsuite>`,
    "",
  ].join("\n");
}

function formatCase({ name, failure, durationMs }: JunitCase, className: string): string {
  const open = `  <testcase classname="${escapeAttribute(className)}" name="${escapeAttribute(name)}"${
    formatTime(durationMs)
  }`;
  return failure
    ? `${open}>\n    <failure message="${escapeAttribute(failure)}"/>\n  </testcase>`
    : `${open}/>`;
}

function formatTime(ms: number | undefined): string {
  return ms === undefined ? "" : ` time="${ms / 1000}"`;
}

/** Escapes text for an attribute; characters that XML cannot contain become U+FFFD. */
function escapeAttribute(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Cs}/gu, "�").replace(
    /[<>&"\n]/g,
    (char) => `&#${char.charCodeAt(0)};`,
  );
}
