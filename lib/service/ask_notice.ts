/** Desktop notifications of asks, where there is a desktop: a person is asked who does not look at a terminal. */
import { plain } from "../base/print/mod.ts";
import type { Ask } from "../policy/mod.ts";
import type { Notice } from "./notice.ts";

/** Most characters of an ask's subject that are shown. */
const SUBJECT_SHOWN = 200;
/** Fewest `ms` between two notifications: a guest decides how often it asks. */
const INTERVAL_MS = 5_000;

export interface AskNotifierOptions {
  /** the setting `app.notifications` */
  isOn(): boolean;
  /** name of a VM by its session */
  nameOf(session: string): string;
  /** environment of the service */
  env?: Record<string, string>;
  /** program that shows a notification */
  program?: string;
}

/** Shows each new ask, and counts those that come in between. */
export class AskNotifier {
  readonly #options: AskNotifierOptions;
  #last = -Infinity;
  #skipped = 0;

  constructor(options: AskNotifierOptions) {
    this.#options = options;
  }

  /** Takes any notice of the service. */
  take({ type, payload }: Notice): void {
    if (type !== "ask" || payload.status !== "pending" || !this.#hasDisplay() || !this.#options.isOn()) {
      return;
    }
    if (performance.now() - this.#last < INTERVAL_MS) return void this.#skipped++;
    this.#last = performance.now();
    const more = this.#skipped > 0 ? `\n${this.#skipped} more wait: sbx asks` : "";
    this.#skipped = 0;
    this.#show(payload as Ask, more).catch(() => {});
  }

  #hasDisplay(): boolean {
    const env = this.#options.env ?? Deno.env.toObject();
    return Boolean(env.DISPLAY || env.WAYLAND_DISPLAY);
  }

  /** Text of the guest is markup to some desktops. */
  async #show({ ask_id, session_id, subject, reason }: Ask, more: string): Promise<void> {
    const { nameOf, program = "notify-send" } = this.#options;
    const shown = plain(subject).slice(0, SUBJECT_SHOWN);
    const body = escapeMarkup(
      `${shown}\n${plain(reason)}\nsbx allow ${ask_id}, or sbx deny ${ask_id}${more}`,
    );
    const args = ["--app-name=sbx", "--urgency=critical", "--", `sbx: ${nameOf(session_id)} asks`, body];
    await new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" }).output();
  }
}

function escapeMarkup(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
