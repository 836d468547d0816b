/** A report as one page: no script, nothing from elsewhere, and every text of a guest escaped. */
import type { Report } from "../../../lib/client/api/mod.ts";
import { localTime } from "../../../lib/base/moment/mod.ts";
import { plain } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { partsOf, summaryOf, titleOf } from "./report_parts.ts";

const BARS_MAX = 12;
const HOURS_SHOWN = 168;
const ESCAPES: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const STYLE = `
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--dim:#59636e;--line:#d1d9e0;--bar:#0969da;--bad:#cf222e}
@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--dim:#9198a1;--line:#3d444d;--bar:#4493f8;--bad:#f85149}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1400px;padding:1.5rem;background:var(--back);color:var(--text);font:15px/1.5 system-ui,sans-serif}
h1{font-size:1.4rem;margin:0 0 .5rem}h2{font-size:1.1rem;margin:2rem 0 .5rem}p{margin:.2rem 0}
.dim{color:var(--dim)}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
.scroll:focus-visible{outline:2px solid var(--bar)}
table{border-collapse:collapse;width:100%;font-size:13px}
td,th{padding:.35rem .6rem;text-align:left;vertical-align:top;border-top:1px solid var(--line);max-width:28rem;overflow-wrap:break-word}
th{border-top:0;white-space:nowrap;font-size:11px;color:var(--dim)}td.number,th.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
svg{display:block;width:100%;height:auto;max-width:600px}
svg text{fill:var(--text);font:12px system-ui,sans-serif}svg .dim{fill:var(--dim)}svg .bar{fill:var(--bar)}svg .bad{fill:var(--bad)}
@media(max-width:600px){body{padding:.8rem}}
@media print{.scroll{overflow:visible}}
`;

/** Text of an element or of an attribute in quotes. */
export function html(text: string): string {
  return plain(text).replaceAll(/[&<>"']/g, (char) => ESCAPES[char]);
}

export async function reportHtml(report: Report): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(STYLE)));
  const policy =
    `default-src 'none'; style-src 'sha256-${digest.toBase64()}'; base-uri 'none'; form-action 'none'`;
  const parts = partsOf(report).map(({ title, none, head, rows }) =>
    `<section><h2>${html(title)}</h2>${
      rows.length === 0 ? `<p class="dim">${html(none)}</p>` : tableOf(title, head, rows)
    }</section>`
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${html(titleOf(report))}</title><style>${STYLE}</style></head>
<body><main><h1>${html(titleOf(report))}</h1>
${summaryOf(report).map((line) => `<p>${html(line)}</p>`).join("\n")}
${hoursPicture(report)}${hostsPicture(report)}
${parts.join("\n")}
<p class="dim">Made by sbx report at ${html(localTime(report.generated_unix_ms).slice(0, 19))}.</p>
</main></body></html>
`;
}

const NUMBER = /^\$?\d+(\.\d+)?$/;

function tableOf(title: string, head: string[], rows: string[][]): string {
  const kind = (text: string) => NUMBER.test(text) ? ' class="number"' : "";
  const cell = (text: string) => `<td${kind(text)}>${html(text)}</td>`;
  return `<div class="scroll" tabindex="0" role="region" aria-label="${html(title)}"><table><thead><tr>${
    head.map((name, at) => `<th scope="col"${kind(rows[0][at])}>${html(name)}</th>`).join("")
  }</tr></thead><tbody>${
    rows.map((row) => `<tr>${row.map(cell).join("")}</tr>`).join("\n")
  }</tbody></table></div>`;
}

/** Events of each hour, the refused ones in red. */
function hoursPicture({ hours }: Report): string {
  const shown = hours.slice(-HOURS_SHOWN);
  if (shown.length === 0) return "";
  const [first, last] = [shown[0].at_unix_ms, shown.at(-1)!.at_unix_ms];
  const slots = Math.min(HOURS_SHOWN, (last - first) / 3_600_000 + 1);
  const width = 450 / slots;
  const most = Math.max(...shown.map(({ events }) => events));
  const bars = shown.map(({ at_unix_ms: at, events, refused }) => {
    const x = slots === 1 ? 0 : (at - first) / Math.max(1, last - first) * (450 - width);
    const [all, bad] = [events / most * 90, refused / most * 90];
    const rect = (kind: string, y: number, height: number) =>
      `<rect class="${kind}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${
        Math.max(1, Math.min(24, width - 1)).toFixed(1)
      }" height="${height.toFixed(1)}"/>`;
    return rect("bar", 100 - all, all) + (refused > 0 ? rect("bad", 100 - bad, bad) : "");
  });
  const label = (ms: number) => html(localTime(ms).slice(0, 16));
  return `<h2>Events by hour</h2><svg viewBox="0 0 450 120" role="img" aria-label="Events by hour, at most ${most}; refused ones in red">${
    bars.join("")
  }<text class="dim" x="0" y="116">${
    label(first)
  }</text><text class="dim" x="450" y="116" text-anchor="end">${
    label(last)
  }</text><text class="dim" x="450" y="10" text-anchor="end">most in an hour: ${most}</text></svg>`;
}

/** Bytes that left, by host. */
function hostsPicture({ left }: Report): string {
  const sums = new Map<string, number>();
  for (const { host, kind, sent_bytes } of left) {
    if (kind === "export") continue;
    sums.set(host, (sums.get(host) ?? 0) + sent_bytes);
  }
  const top = [...sums].filter(([, bytes]) => bytes > 0).toSorted((a, b) => b[1] - a[1]).slice(0, BARS_MAX);
  if (top.length === 0) return "";
  const rows = top.map(([host, bytes], at) => {
    const y = at * 36;
    const name = host.length > 50 ? `${host.slice(0, 49)}…` : host;
    return `<text x="0" y="${y + 12}">${html(name)}</text><text class="dim" x="450" y="${
      y + 12
    }" text-anchor="end">${html(formatBytes(bytes))}</text><rect class="bar" x="0" y="${y + 17}" width="${
      Math.max(1, bytes / top[0][1] * 450).toFixed(1)
    }" height="10"/>`;
  });
  return `<h2>Bytes that left, by host</h2><svg viewBox="0 0 450 ${
    top.length * 36
  }" role="img" aria-label="Bytes that left, by host">${rows.join("")}</svg>`;
}
