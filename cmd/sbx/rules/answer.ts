/** `sbx allow` and `sbx deny`: answers to an ask. */
import type {
  AskAnswer,
  AskList,
  AskResolve,
  AskRule,
  AskView,
  RuleSaved,
  TryResult,
} from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION, type Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { plain, print, printJson } from "../../../lib/base/print/mod.ts";
import { usageError, UTC_NOTE } from "../output.ts";
import type { RuleTable } from "../../../lib/policy/author/mod.ts";
import { byRule } from "../../../lib/policy/decision/mod.ts";

const SAVE_OPTIONS: Option[] = [
  {
    name: "always",
    about: "write a rule, so that the covered events pass without a question from now on; shows its effect",
  },
  { name: "save-as-rule", about: "the same as --always" },
];

/** Creates the command for one decision. */
export function answerCommand(decision: AskAnswer["decision"]): Command {
  const command: Command = {
    name: decision,
    usage: `ASK [--for TIME] [--host | --method | --path PATH]${decision === "allow" ? " [--always]" : ""}`,
    summary: `${decision} a waiting event, or with --for similar ones too`,
    notes: [
      "With --for it answers every event that sbx asks shows as covered; with --host every one of that host.",
      "--method and --path cover requests to the same scheme, host and port; --path those below a folder.",
      ...decision === "deny"
        ? [`A denial holds for ${DENY_MINUTES} minutes: a program tries again at once.`]
        : [],
      UTC_NOTE,
    ],
    options: [
      {
        name: "for",
        value: "TIME",
        about: decision === "allow"
          ? "minutes or hours, such as 10m or 2h, the session, or once (default; with --host, --method or --path the session)"
          : `minutes or hours, such as 10m or 2h, the session, or once; default ${DENY_MINUTES}m`,
      },
      { name: "host", about: "answer for the whole host: every request, and the lookups of its addresses" },
      { name: "method", about: "answer for every request of its method there, of any path" },
      {
        name: "path",
        value: "PATH",
        about: "answer for every request to its path, or to a folder of it, and below, of any method",
      },
      ...(decision === "allow" ? SAVE_OPTIONS : []),
      JSON_OPTION,
    ],
    words: { min: 1, max: 1 },
    completes: ["asks"],
    examples: [
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a`,
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a --for 10m`,
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a --host`,
      `sbx ${decision} ask-3f2a90c1d7e4-9c1d2e7a --path /repos --for 10m`,
    ],
    async run(args) {
      const path = `/asks/${encodeURIComponent(args.words[0])}/resolve`;
      const time = timeOf(command, args);
      const client = await connect();
      const shown = await findAsk(client, args.words[0]);
      const answer: AskAnswer = { decision, ...scopeOf(command, args, shown, time) };
      if (args.has("always") || args.has("save-as-rule")) await saveAsRule(client, shown, answer);
      const json: AskResolve = { ...answer, digest: shown.digest };
      const ask = await client.json<AskView>("POST", path, { json });
      await (args.has("json") ? printJson(ask) : print(
        plain(`${ask.ask_id} ${ask.status}: ${ask.event_type} ${outcomeOf(ask, answer)}`),
      ));
      return 0;
    },
  };
  return command;
}

/**
 * The pending ask with an id, which includes part of the text's digest.
 * @throws {SbxError} `ask.not_found`
 */
async function findAsk(client: Client, askId: string): Promise<AskView> {
  const { asks } = await client.json<AskList>("GET", "/asks");
  const ask = asks.find(({ ask_id }) => ask_id === askId);
  if (ask) return ask;
  throw new SbxError("ask.not_found", `no ask ${askId} is pending: it was answered, or it expired`, {
    hint: "sbx asks lists the pending ones",
  });
}

/** The events that an answer covers and the rule that asked, or the rule that has decided in its place. */
function outcomeOf(ask: AskView, answer: AskAnswer): string {
  return ask.by_rule === undefined
    ? `${reachOf(ask, answer)} (${ask.rule_id})`
    : `${ask.subject}, ${byRule(ask.by_rule)}`;
}

/** The event of a one-time answer, or the covered events of a lasting one. */
function reachOf(ask: AskView, { scope, minutes, of, path }: AskAnswer): string {
  const { subject } = ask;
  const wide = path === undefined ? "" : `, from ${path}`;
  const covered = of ? `${coversOf(ask, of)}${wide}` : ask.covers;
  if (scope === "once" || !covered) return subject;
  return `${covered}, for ${scope === "session" ? "the session" : count(minutes!, "minute")}`;
}

/** The events that an answer of this reach covers, in words; `undefined`: the ask has no such reach. */
export function coversOf(ask: AskView, of: NonNullable<AskAnswer["of"]>): string | undefined {
  return { host: ask.covers_host, method: ask.covers_method, path: ask.covers_path }[of];
}

/** Options that name a wider reach. */
const REACHES = ["host", "method", "path"] as const;

/** The wider reach that the options name. */
function wideOf(command: Command, args: Arguments, ask: AskView): Pick<AskAnswer, "of" | "path"> {
  const of = REACHES.find((name) => args.has(name));
  if (of === undefined) return {};
  if (coversOf(ask, of) === undefined) {
    const what = of === "host" ? "is about no host" : `is about no request with a ${of}`;
    throw usageError(command, `${ask.ask_id} ${what}`, `leave out --${of}`);
  }
  const path = of === "path" ? args.text("path") : undefined;
  return { of, ...path !== undefined && { path } };
}

/** Value of `--for`. @throws {SbxError} `usage.invalid`, also of options that exclude each other */
function timeOf(command: Command, args: Arguments): Pick<AskAnswer, "scope" | "minutes"> | undefined {
  const text = args.text("for");
  const [reach, other] = REACHES.filter((name) => args.has(name));
  if (other !== undefined) throw usageError(command, `give --${reach} or --${other}, not both`);
  if (text === "once" && reach !== undefined) {
    throw usageError(command, `--${reach} needs a time, or the session`);
  }
  if (text === undefined) return undefined;
  if (text === "once" || text === "session") return { scope: text };
  const [, number, unit] = text.match(/^(\d{1,4})(m|h)$/) ?? [];
  if (!number) {
    throw usageError(
      command,
      `invalid value "${text}" of --for`,
      "give minutes or hours, such as 10m or 2h, session, or once",
    );
  }
  return { scope: "minutes", minutes: Number(number) * (unit === "h" ? 60 : 1) };
}

function scopeOf(
  command: Command,
  args: Arguments,
  ask: AskView,
  time: Pick<AskAnswer, "scope" | "minutes"> | undefined,
): Omit<AskAnswer, "decision"> {
  const wide = wideOf(command, args, ask);
  if (time) return { ...time, ...wide };
  if (command.name === "deny") return shortDenial(ask, wide);
  return wide.of ? { scope: "session", ...wide } : { scope: "once" };
}

/** Minutes for which a denial holds, unless the person says otherwise. */
const DENY_MINUTES = 10;

/** The denial of an ask without a time: of one that covers nothing else, once. */
export function shortDenial(
  { covers }: Pick<AskView, "covers">,
  wide: Pick<AskAnswer, "of" | "path"> = {},
): Omit<AskAnswer, "decision"> {
  return covers === undefined ? { scope: "once" } : { scope: "minutes", minutes: DENY_MINUTES, ...wide };
}

/**
 * Saves the rule of a pending ask.
 *
 * @param say prints text for the person
 * @throws {SbxError} `ask.not_found`, `ask.invalid`, `policy.blocked`, `policy.invalid`,
 * `policy.change.conflict`: nothing is written, and the ask waits
 */
export async function saveAsRule(
  client: Client,
  { ask_id, session_id }: Pick<AskView, "ask_id" | "session_id">,
  { of, path: folder }: Pick<AskAnswer, "of" | "path">,
  say: (text: string) => Promise<void> = print,
): Promise<void> {
  const [{ withRule }, { parseToml }] = await Promise.all([
    import("../../../lib/policy/author/mod.ts"),
    import("../../../lib/base/toml/mod.ts"),
  ]);
  const saved = await client.json<AskRule>("GET", `/asks/${encodeURIComponent(ask_id)}/rule`, {
    query: { ...of && { of }, ...folder !== undefined && { path: folder } },
  });
  const { profile_id, rule_id, rule, replaces, digest } = saved;
  const { text } = await withRule(parseToml("", "rule"), rule_id, rule as RuleTable);
  await say(plain(text.trim(), true));
  await printEffect(client, session_id, saved, say);
  const path = `/profiles/${segment(profile_id, "profile")}/enforcement/rules`;
  if (replaces) {
    const place = `${path}/${encodeURIComponent(rule_id)}`;
    await client.json<RuleSaved>("PUT", place, { query: { digest }, json: rule });
  } else await client.json<RuleSaved>("POST", `${path}/create`, { json: { rule_id, rule } });
  const done = replaces ? `the rule "${rule_id}" is changed` : "saved";
  await say(
    `${done} for profile "${profile_id}", and active in its running VMs; sbx policy changes ${profile_id} lists it, ` +
      "sbx policy undo CHANGE takes it back",
  );
}

/** Prints the linter's remarks, and the session's events that the rules would have decided differently. */
async function printEffect(
  client: Client,
  session: string,
  saved: AskRule,
  say: (text: string) => Promise<void>,
): Promise<void> {
  const { profile_id, rule_id, rule } = saved;
  const draft = { rule_id, rule };
  const path = `/profiles/${segment(profile_id, "profile")}/enforcement/rules/try`;
  const { lints, effect } = await client.json<TryResult>("POST", path, { json: { ...draft, session } });
  const { formatLint } = await import("../../../lib/policy/author/mod.ts");
  const text = lints.map((lint) => formatLint(lint as Parameters<typeof formatLint>[0])).join("\n");
  await say(text === "" ? "the linter has no remarks" : plain(text, true));
  if (lints.some(({ severity, rule_id }) => severity === "error" && rule_id === draft.rule_id)) {
    throw new SbxError("policy.invalid", "the linter takes this rule for an error: nothing was saved", {
      hint: "write the rule yourself: docs/guides/policy.md",
    });
  }
  const { decided, changes } = effect!;
  const changed = changes.map(({ from, to, count: events }) =>
    `${count(events, "event")} from ${from} to ${to}`
  );
  await say(
    `in this session of ${count(decided, "decision")}: ${changed.join(", ") || "no other decision"}`,
  );
}
