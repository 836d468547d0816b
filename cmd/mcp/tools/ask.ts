/** Asks that wait for a person while a tool of sbx-mcp works. */
import { z } from "zod";
import { type AskList, AskView } from "../../../lib/client/api/mod.ts";
import { type Context, type Tool, tool } from "../tool.ts";
import { printable } from "./event.ts";

/** Asks in the result of one call. */
const ASKS_MAX = 20;

export const AskSummary = z.object({
  ask_id: z.string(),
  event_id: z.string(),
  subject: z.string(),
  rule_id: z.string(),
  reason: z.string(),
  status: AskView.shape.status,
});
export type AskSummary = z.infer<typeof AskSummary>;

/** Follows the asks of one VM, and reports each as progress when it begins to wait and when it is over. */
export class AskWatch {
  readonly #progress: Context["progress"];
  readonly #socket: WebSocket;
  readonly #asks = new Map<string, AskSummary>();
  /** session whose asks count; other VMs' asks are ignored */
  session?: string;

  /** Settles when asks are followed, or cannot be: the call does not depend on it. */
  static async open({ client, progress }: Context, session?: string): Promise<AskWatch> {
    const watch = new AskWatch(client.socket("/events"), progress);
    watch.session = session;
    await new Promise((resolve) => {
      for (const event of ["open", "error", "close"]) watch.#socket.addEventListener(event, resolve);
    });
    return watch;
  }

  private constructor(socket: WebSocket, progress: Context["progress"]) {
    this.#socket = socket;
    this.#progress = progress;
    socket.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data)));
  }

  /** Asks so far, the oldest first. */
  get asks(): AskSummary[] {
    return [...this.#asks.values()].slice(0, ASKS_MAX);
  }

  [Symbol.dispose](): void {
    this.#socket.close();
  }

  #receive({ type, payload }: { type: string; payload: AskView }): void {
    if (type !== "ask" || payload.session_id !== this.session) return;
    const ask = summaryOf(payload);
    this.#asks.set(ask.ask_id, ask);
    const { subject, status, reason } = ask;
    const state = status === "pending" ? "waiting for a person to allow" : `${status} by a person:`;
    this.#progress(
      status === "expired" ? `no person answered: ${subject}` : `${state} ${subject} (${reason})`,
      true,
    );
  }
}

export const ASK_TOOLS: Tool[] = [
  tool({
    name: "asks",
    title: "List pending asks",
    description:
      "Lists the events that wait for a person to allow or deny them, in the VMs made with these tools. Only people answer asks: ask " +
      "the person you work for. An ask without an answer in time is denied.",
    input: z.strictObject({}),
    output: z.object({
      asks: z.array(z.object({ ...AskSummary.shape, vm: z.string(), expires_at: z.string() })),
    }),
    hints: { readOnly: true, destructive: false, idempotent: true, openWorld: false },
    run: async (_, { client, vms }) => {
      const { asks } = await client.json<AskList>("GET", "/asks");
      const own = asks.filter(({ session_id }) => vms.has(session_id));
      return {
        asks: own.map((ask) => ({ ...summaryOf(ask), vm: ask.session_id, expires_at: ask.expires_at })),
      };
    },
  }),
];

function summaryOf({ ask_id, event_id, subject, rule_id, reason, status }: AskView): AskSummary {
  return { ask_id, event_id, subject: printable(subject), rule_id, reason: printable(reason), status };
}
