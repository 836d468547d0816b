/** Asks that wait for a person: the inbox of all running VMs, and notifications on the desktop. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import type { AskResolve } from "../../client/api/mod.ts";
import type { AnsweredBy, Ask, AskInForce } from "../../policy/mod.ts";
import type { Registry } from "../vm/registry.ts";
import { plain } from "../../base/print/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { READ_MS, whyLine } from "../../policy/ask/mod.ts";
import type { Notice } from "../notice.ts";

/** Asks of all running VMs that wait for a person. */
export class AskInbox {
  readonly #registry: Registry;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Pending asks, oldest first; a VM that does not reply has none. */
  async list(): Promise<Ask[]> {
    return (await this.#lists()).asks;
  }

  /** Asks of all running VMs, oldest first; `decided`: the last ones that changed rules decided. */
  async #lists(): Promise<{ asks: Ask[]; decided: Ask[] }> {
    const lists = await Promise.all(
      this.#registry.alive().map((vm) =>
        vm.process.call({ t: "Asks" }).catch(() => ({ asks: [] as Ask[], decided: [] as Ask[] }))
      ),
    );
    const asks = lists.flatMap((each) => each.asks);
    return {
      asks: asks.sort((a, b) => a.created_at.localeCompare(b.created_at)),
      decided: lists.flatMap((each) => each.decided),
    };
  }

  /** Lasting answers of all running VMs, oldest first; `unreadable`: sessions of VMs that do not reply. */
  async inForce(): Promise<{ asks: AskInForce[]; unreadable: string[] }> {
    const unreadable: string[] = [];
    const lists = await Promise.all(
      this.#registry.alive().map(async ({ process, record: { id } }) => {
        try {
          return (await process.call({ t: "AsksInForce" })).asks;
        } catch {
          unreadable.push(id);
          return [];
        }
      }),
    );
    return { asks: lists.flat().sort((a, b) => a.resolved_at.localeCompare(b.resolved_at)), unreadable };
  }

  /**
   * Withdraws a lasting answer of a running VM.
   *
   * @throws {SbxError} `ask.not_found`, `ledger.unavailable`
   */
  async withdraw(askId: string, by: AnsweredBy): Promise<AskInForce> {
    const { asks } = await this.inForce();
    const standing = asks.find(({ ask_id }) => ask_id === askId);
    if (!standing) {
      throw new SbxError("ask.not_found", `no answer to ${askId} is in force: it ended, or was withdrawn`, {
        hint: didYouMean(askId, asks.map(({ ask_id }) => ask_id)) ?? "sbx asks --in-force lists them",
      });
    }
    const vm = this.#registry.get(standing.session_id);
    return (await vm.process.call({ t: "Withdraw", ask_id: askId, by })).ask;
  }

  /** A pending ask. @throws {SbxError} `ask.not_found` */
  async get(askId: string): Promise<Ask> {
    return findAsk(askId, await this.list());
  }

  /**
   * Answers an ask. One that changed rules decided the same way takes the answer too: a client may have saved
   * the rule just before.
   *
   * @throws {SbxError} `ask.not_found`, `ask.changed`, `ask.invalid`, `policy.blocked`
   */
  async resolve(askId: string, answer: AskResolve, by: AnsweredBy): Promise<Ask> {
    const { asks, decided } = await this.#lists();
    const found = decided.find(({ ask_id }) => ask_id === askId) ?? findAsk(askId, asks);
    const vm = this.#registry.get(found.session_id);
    return (await vm.process.call({ t: "Resolve", ask_id: askId, ...answer, by })).ask;
  }
}

/** The ask of this id. @throws {SbxError} `ask.not_found` */
function findAsk(askId: string, asks: readonly Ask[]): Ask {
  const pending = asks.find(({ ask_id }) => ask_id === askId);
  if (pending) return pending;
  throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered, or it expired`, {
    hint: didYouMean(askId, asks.map(({ ask_id }) => ask_id)) ?? "sbx asks lists the pending ones",
  });
}

/** Most characters of an ask's subject that are shown. */
const SUBJECT_SHOWN = 200;
/** Most characters of a failure that are reported. */
const PROBLEM_SHOWN = 200;
/** Fewest `ms` between two notifications: a guest decides how often it asks. */
const INTERVAL_MS = 5_000;
/**
 * Notifications whose end is waited for; the oldest is forgotten for one more, and
 * stays until its desktop removes it.
 */
const SHOWN_MAX = 100;
/** Buttons of a notification; the keys are the decisions. */
const ACTIONS = { allow: "Allow once", deny: "Deny" };

/** Shows notifications; undefined where there is no desktop. */
export interface Board {
  show(
    notification: { title: string; body: string; actions: Record<string, string> },
    onAction: (key: string) => void,
  ): Promise<(() => Promise<void>) | undefined>;
}

interface AskNotifierOptions {
  /** the setting `app.notifications` */
  isOn(): boolean;
  /** name of a VM by its session */
  nameOf(session: string): string;
  /** answers an ask once */
  answer(ask: Ask, decision: "allow" | "deny"): Promise<unknown>;
  board(): Promise<Board>;
  /** reports why notifications cannot be shown; once, until the reason changes */
  report(problem: string): void;
}

/** Shows each new ask, counts asks that arrive meanwhile, and removes answered ones. */
export class AskNotifier {
  readonly #options: AskNotifierOptions;
  readonly #shown = new Map<string, Promise<(() => Promise<void>) | undefined>>();
  #last = -Infinity;
  #skipped = 0;
  #problem = "";

  constructor(options: AskNotifierOptions) {
    this.#options = options;
  }

  /** Takes any notice of the service. */
  take({ type, payload }: Notice): void {
    if (type !== "ask") return;
    const ask = payload as Ask;
    if (ask.status !== "pending") return void this.#remove(ask.ask_id);
    // The deadline of one that is shown has moved.
    if (!this.#options.isOn() || this.#shown.has(ask.ask_id)) return;
    if (performance.now() - this.#last < INTERVAL_MS) return void this.#skipped++;
    this.#last = performance.now();
    const more = this.#skipped > 0 ? `\n${this.#skipped} more wait: sbx asks` : "";
    this.#skipped = 0;
    const [oldest] = this.#shown.keys();
    if (this.#shown.size >= SHOWN_MAX) this.#shown.delete(oldest);
    this.#put(ask, more);
  }

  #put(ask: Ask, more: string): void {
    this.#shown.set(ask.ask_id, this.#show(ask, more).catch((error) => this.#fail(error)));
  }

  /** A desktop that is ending or fails leaves the other ways to answer open. */
  #fail(error: unknown): undefined {
    const problem = plain(error instanceof Error ? error.message : String(error)).slice(0, PROBLEM_SHOWN);
    if (problem !== this.#problem) this.#options.report(problem);
    this.#problem = problem;
  }

  /** Text of the guest is markup to some desktops. */
  async #show(ask: Ask, more: string) {
    const { ask_id, session_id, subject, reason } = ask;
    const { nameOf, answer, board } = this.#options;
    const shown = plain(subject).slice(0, SUBJECT_SHOWN);
    const why = ask.why === undefined ? "" : `\n${plain(whyLine(ask))}`;
    const body = escapeMarkup(
      `${shown}\n${plain(reason)}${why}\nsbx allow ${ask_id}, or sbx deny ${ask_id}${more}`,
    );
    const title = `sbx: ${nameOf(session_id)} asks`;
    let shownAt = Infinity;
    const remove = await (await board()).show({ title, body, actions: ACTIONS }, (key) => {
      if (key !== "allow" && key !== "deny") return;
      // The press was meant for the notification that was in this place before;
      // its button took this one away.
      if (performance.now() - shownAt < READ_MS) return this.#shown.has(ask_id) && this.#put(ask, more);
      // One that was answered elsewhere in this moment needs no answer.
      answer(ask, key).catch(ignore("answered elsewhere; another failure leaves the ask pending"));
    });
    shownAt = performance.now();
    return remove;
  }

  async #remove(ask: string): Promise<void> {
    const shown = this.#shown.get(ask);
    this.#shown.delete(ask);
    await (await shown)?.().catch(ignore("the desktop is ending; it removes its notifications"));
  }
}

export function escapeMarkup(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The desktop's board; loaded when there is something to show. */
export async function openBoard(): Promise<Board> {
  if (Deno.build.os === "darwin") return MAC_BOARD;
  const module = "../../base/dbus/mod.ts";
  const { DbusBoard } = await import(module);
  return new DbusBoard();
}

/**
 * The script takes its texts as arguments: text of a guest is no part of it.
 * Notifications of scripts have no buttons.
 */
const SCRIPT = ["on run {body, title}", "display notification body with title title", "end run"];

/** Arguments of osascript for a notification. */
export function macArguments({ title, body }: { title: string; body: string }): string[] {
  return [...SCRIPT.flatMap((line) => ["-e", line]), body, title];
}

const MAC_BOARD: Board = {
  async show({ title, body }) {
    // Escaped for desktops that read markup; this one shows plain text.
    const text = body.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
    const args = macArguments({ title, body: text });
    await new Deno.Command("osascript", { args, stdin: "null", stdout: "null", stderr: "null" }).output();
    return undefined;
  },
};
