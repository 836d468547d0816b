/** Pages of the read-only service: plain HTML without scripts. */
import type { Row } from "../engine.ts";

const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escape(text: unknown): string {
  return String(text ?? "").replaceAll(/[&<>"']/g, (character) => ESCAPES[character]);
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escape(title)}</title></head>
<body><main><h1>${escape(title)}</h1>
${body}
</main></body></html>
`;
}

/** The form with the questions that an account may ask. */
export function questionsPage(questions: readonly { name: string; about: string; value?: string }[]): string {
  const options = questions.map(({ name, about, value }) =>
    `<option value="${escape(name)}">${escape(name)}${value ? ` ${escape(value)}` : ""}: ${
      escape(about)
    }</option>`
  );
  return page(
    "The fleet",
    questions.length === 0 ? "<p>This account may ask no question.</p>" : `<form method="post" action="/ask">
<p><label>Question <select name="question">${options.join("")}</select></label></p>
<p><label>Value <input name="value" maxlength="1024"></label></p>
<p><label>Days <input name="days" type="number" min="1" max="36500" value="30"></label></p>
<p><button>Ask</button></p>
</form>
<p>Each question is on record with your name.</p>`,
  );
}

/** An answer. Its cells come from machines. */
export function answerPage(
  { question, value }: { question: string; value?: string },
  rows: readonly Row[],
): string {
  const [first] = rows;
  const names = Object.keys(first ?? {});
  const cells = (tag: string, values: readonly unknown[]) =>
    `<tr>${values.map((each) => `<${tag}>${escape(each)}</${tag}>`).join("")}</tr>`;
  const table = first
    ? `<table><thead>${cells("th", names)}</thead>
<tbody>${rows.map((row) => cells("td", names.map((name) => row[name]))).join("\n")}</tbody></table>`
    : "<p>nothing</p>";
  return page(
    value === undefined ? question : `${question} ${value}`,
    `${table}\n<p><a href="/">Another question</a></p>`,
  );
}
