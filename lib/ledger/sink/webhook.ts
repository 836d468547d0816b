/**
 * Webhook sink: findings of a severity and up as messages of Slack or Microsoft Teams, or as JSON. The
 * address is a secret: it is read from a file at each delivery, and in no queue, record or message.
 */
import { accessProblem } from "../../base/home/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { isLoopbackHost } from "../../base/url/mod.ts";
import { SEVERITIES, type Severity } from "../../detection/mod.ts";
import { HttpReceiver } from "./http.ts";
import { DeliveryError, type FindingRecord, type Sender } from "./record.ts";

/** Forms of messages. */
export const WEBHOOK_FORMS = ["json", "slack", "teams"] as const;
type WebhookForm = typeof WEBHOOK_FORMS[number];

/** A webhook as the configuration names it. */
export interface WebhookOptions {
  /** file with the address, which only its owner may read */
  file: string;
  form: WebhookForm;
  /** least severity */
  severity: Severity;
}

/** Most characters of a header, of another text, and of the file (docs/design/contracts/14-limits.md §14). */
const HEADER_MAX = 150;
const TEXT_MAX = 1000;
const ADDRESS_MAX = 4096;

export class WebhookSender implements Sender {
  readonly batch = 1;
  readonly #options: WebhookOptions;

  constructor(options: WebhookOptions) {
    this.#options = options;
  }

  /** True for new findings of its severity; a state or an exception is no alert. */
  accepts({ finding, is_update, exception }: FindingRecord): boolean {
    const { severity } = this.#options;
    if (is_update || exception !== undefined) return false;
    return SEVERITIES.indexOf(finding.severity) >= SEVERITIES.indexOf(severity);
  }

  async send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number> {
    const { file, form } = this.#options;
    for (const record of records) {
      const receiver = new HttpReceiver(await readAddress(file), undefined, "the webhook");
      const headers = { "idempotency-key": record.finding.finding_id };
      await receiver.post(FORMS[form](record), headers, signal);
    }
    return 0;
  }
}

/** @throws {DeliveryError} which does not have the content of the file */
async function readAddress(file: string): Promise<URL> {
  let text: string;
  try {
    const info = await Deno.stat(file);
    const refused = accessProblem(file, info, { keep: "secret", root: "owns" });
    if (refused) throw new DeliveryError(`${file} ${refused.problem}: ${refused.hint}`);
    if (info.size > ADDRESS_MAX) throw new DeliveryError(`${file} is not a file with one URL`);
    text = (await Deno.readTextFile(file)).trim();
  } catch (error) {
    throw error instanceof DeliveryError ? error : new DeliveryError(`${file} cannot be read`);
  }
  const url = URL.parse(text);
  const isSafe = url?.protocol === "https:" || url?.protocol === "http:" && isLoopbackHost(url.hostname);
  if (!url || !isSafe || url.username || url.password) {
    throw new DeliveryError(`${file} must have one https URL, without a user or password`);
  }
  return url;
}

const FORMS: Record<WebhookForm, (record: FindingRecord) => unknown> = {
  json: (record) => record,
  slack: slackOf,
  teams: teamsOf,
};

function headOf({ finding: { severity, title } }: FindingRecord): string {
  return cut(`sbx: ${severity}: ${title}`, HEADER_MAX);
}

/** Facts of a finding, in words; the guest has chosen parts of some. */
function factsOf(
  { finding, common, decision, vm_name, made_by }: FindingRecord,
): [name: string, value: string][] {
  const vm = vm_name ?? common.vm_id;
  const facts: [string, string | undefined][] = [
    ["VM", vm],
    ["Computer", made_by && `${made_by.user} on ${made_by.device}`],
    ["Rule", finding.rule_id],
    ["Decision", decision?.outcome],
    ["Time", new Date(common.timestamp_unix_ms).toISOString()],
    ["Record", `sbx why ${common.event_id}`],
    ["All findings", `sbx findings ${vm}`],
  ];
  return facts.flatMap(([name, value]) => value ? [[name, cut(value, TEXT_MAX)] as [string, string]] : []);
}

/** Plain texts, in which Slack finds no markup; the text for notifications is escaped. */
export function slackOf(record: FindingRecord) {
  const text = (value: string) => ({ type: "plain_text" as const, text: value, emoji: false });
  const [header, section] = ["header" as const, "section" as const];
  return {
    text: headOf(record).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;"),
    blocks: [
      { type: header, text: text(headOf(record)) },
      { type: section, text: text(cut(record.finding.title, TEXT_MAX)) },
      { type: section, fields: factsOf(record).map(([name, value]) => text(`${name}: ${value}`)) },
    ],
  };
}

/** Text runs, in which cards have no Markdown. */
export function teamsOf(record: FindingRecord) {
  const line = (...inlines: object[]) => ({ type: "RichTextBlock", inlines });
  const run = (text: string, more = {}) => ({ type: "TextRun", text, ...more });
  return {
    type: "message",
    attachments: [{
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.4",
        body: [
          line(run(headOf(record), { size: "large", weight: "bolder" })),
          ...factsOf(record).map(([name, value]) => line(run(`${name}: `, { weight: "bolder" }), run(value))),
        ],
      },
    }],
  };
}

/** One line without control characters, of at most `max` characters. */
function cut(text: string, max: number): string {
  const line = plain(text).replace(/\s+/g, " ").trim() || "(empty)";
  return line.length <= max ? line : `${line.slice(0, max - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}
