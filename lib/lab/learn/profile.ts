/** The profile.toml of a learned profile. */
import { SbxError } from "../../base/error/mod.ts";
import { count } from "../../base/text/mod.ts";
import { type Rule, subjectLine } from "../../policy/mod.ts";
import { rulesOf, withoutRule } from "../../policy/author/mod.ts";
import { parseProfile, type Profile, PROFILE_ID } from "../../config/profile/mod.ts";
import { encodeKey, encodeValue, parseToml, setKey, type TomlDocument } from "../../base/toml/mod.ts";
import type { LabEvent, LabSession } from "../mod.ts";
import { checkProfile, emptyError, type LearnCheck, ProfileCheck } from "./check.ts";
import { type LearnedRule, RuleMaker } from "./rule.ts";
import { shown } from "./text.ts";
import { allOf } from "../../base/list/mod.ts";
import { familyOf, type GOVERNED_FAMILIES } from "../../event/mod.ts";
import { answerNeedOf, isNeeded, needOf } from "./need.ts";

/** Id of the rule that asks about everything else, and its priority: behind the rules of the profile. */
export const REST = {
  id: "everything-else",
  priority: 900,
  /** comments of a profile where it asks, and where it blocks */
  asked: ["needed, and asks about everything else.", "# Everything else is a question."],
  blocked: ["needed, and blocks everything else.", "# Everything else is blocked."],
};

export interface LearnOptions {
  /** id of the new profile */
  id: string;
  /** base profile, whose machine, credentials and servers are kept */
  base: Profile;
  /** read twice: to learn, and to prove */
  sessions(): Iterable<LabSession> | AsyncIterable<LabSession>;
}

/** A rule and the events it allows beyond the record. */
export interface ProvedRule extends LearnedRule {
  /** the engine allows the witness by this rule */
  witness_allowed: boolean;
}

export interface LearnedProfile {
  schema: "sbx.learn.v1";
  id: string;
  base: string;
  /** profile.toml */
  text: string;
  event_count: number;
  rules: ProvedRule[];
  /** of the text, over the same events */
  check: LearnCheck;
}

/**
 * Makes the profile that allows the sessions' events and asks about everything else, and proves it by a
 * replay.
 *
 * @throws {SbxError} `learn.empty`, `learn.unnamed`; `learn.base`: the base has rules elsewhere;
 * `learn.failed`: the profile would refuse something recorded; `profile.invalid`
 */
export async function learnProfile({ id, base, sessions }: LearnOptions): Promise<LearnedProfile> {
  if (!PROFILE_ID.test(id)) {
    throw new SbxError("profile.invalid", `invalid profile id "${id}"`, {
      hint: "use 1 to 64 of a-z 0-9 _ -",
    });
  }
  const machine = machineOf(base, id);
  const learner = new Learner();
  const counts = new Map<string, number>();
  for await (const { id: session, events } of sessions()) {
    let number = 0;
    for await (const event of events) {
      number++;
      learner.add(event);
    }
    counts.set(session, number);
  }
  const learned = learner.learned([...Object.keys(machine.rules), REST.id]);
  const draft = textOf(machine.document, learned.rules, learned.rest, learned.needed_count);
  const proof = new ProfileCheck(rulesIn(draft, id));
  const rules = learned.rules.map((rule): ProvedRule => ({
    ...rule,
    witness_allowed: proof.allowingRule(rule.witness) === rule.id,
  }));
  const text = textOf(machine.document, rules, learned.rest, learned.needed_count);
  // The text as it will be read, over the events as they were recorded: a VM that runs on has more by now.
  const check = await checkProfile(rulesIn(text, id), firstOf(sessions(), counts));
  if (!check.ok) throw failedError(check);
  return { schema: "sbx.learn.v1", id, base: base.id, text, event_count: learned.event_count, rules, check };
}

/** The base without its allow and ask rules; its blocks and rewrites stay. */
function machineOf(base: Profile, id: string): Profile {
  const { rule_files, detection, grpc } = base;
  if (rule_files?.enforcement || rule_files?.sigma || grpc || (detection?.packs ?? []).length > 0) {
    throw new SbxError(
      "learn.base",
      `profile "${base.id}" has rules, detections or descriptors in other files`,
      {
        hint: "name a profile without [rule_files], [detection] and [grpc]: sbx learn NAME --base code",
      },
    );
  }
  let { document } = base;
  for (const [ruleId, { action }] of Object.entries(base.rules)) {
    if (action === "allow" || action === "ask") document = withoutRule(document, ruleId);
  }
  document = setKey(document, [], "id", id);
  document = setKey(document, [], "name", `${base.name} (learned)`);
  document = setKey(
    document,
    [],
    "description",
    `What recorded sessions of the profile ${base.id} needed, and no more.`,
  );
  document = setKey(document, [], "revision", "1.0.0");
  return parseProfile(document, { id, source: "user" });
}

function textOf(
  machine: TomlDocument,
  rules: readonly (LearnedRule & { witness_allowed?: boolean })[],
  rest: string,
  needed: number,
): string {
  return [
    `# Made by sbx learn: it allows what recorded sessions ${REST.asked[0]}`,
    machine.text.trimEnd(),
    "",
    `# ${count(needed, "recorded event")} by ${
      count(rules.length, "rule")
    }, each the smallest that sbx finds. Change or remove any.`,
    "",
    ...rules.map(ruleText),
    REST.asked[1],
    `[profiles.rules.${REST.id}]`,
    'name = "Everything else"',
    'action = "ask"',
    `priority = ${REST.priority}`,
    `match = '${rest}'`,
    "",
  ].join("\n");
}

function ruleText(
  { id, name, match, needed_by, also, witness_allowed }: LearnedRule & { witness_allowed?: boolean },
) {
  const { count: events, event_ids } = needed_by;
  return [
    `# needed by ${count(events, "event")}: ${event_ids.map((eventId) => shown(eventId, 20)).join(", ")}${
      events > event_ids.length ? ", …" : ""
    }`,
    ...witness_allowed === false ? [] : [`# would also allow: ${also}`],
    `[profiles.rules.${encodeKey(id)}]`,
    `name = ${encodeValue(name)}`,
    'action = "allow"',
    // A literal string: the match has no single quote and no control character.
    `match = '${match}'`,
    "",
  ].join("\n");
}

/** Rules of a profile's text. @throws {SbxError} `profile.invalid`, `policy.invalid` */
function rulesIn(text: string, id: string): Rule[] {
  const document = parseToml(text, `profile ${id}`);
  return profileRules(parseProfile(document, { id, source: "user" }));
}

/** Rules in the profile.toml of a profile. */
export function profileRules({ document, rules }: Profile): Rule[] {
  return rulesOf(document, "profile", ["profiles", "rules"], rules);
}

async function* firstOf(
  sessions: Iterable<LabSession> | AsyncIterable<LabSession>,
  counts: ReadonlyMap<string, number>,
): AsyncGenerator<LabSession> {
  for await (const { id, events } of sessions) yield { id, events: take(events, counts.get(id) ?? 0) };
}

async function* take<T>(items: Iterable<T> | AsyncIterable<T>, number: number): AsyncGenerator<T> {
  let taken = 0;
  for await (const item of items) {
    if (taken++ === number) return;
    yield item;
  }
}

function failedError({ refused, refused_count }: LearnCheck): SbxError {
  const lines = refused.slice(0, 5).map(({ event_id, subject, reason }) =>
    `${event_id}: ${shown(subject, 80)}: ${shown(reason, 120)}`
  );
  return new SbxError(
    "learn.failed",
    `the learned profile would refuse ${count(refused_count, "recorded event")}, so it is not written:\n${
      lines.join("\n")
    }`,
    {
      hint:
        "a block or rewrite that the base keeps may be in the way: sbx learn NAME --base PROFILE starts from another profile",
    },
  );
}

/** Most events that no rule can name which one error lists. */
const UNNAMED_SHOWN = 3;

/** Rules learned from sessions. */
interface Learned {
  rules: LearnedRule[];
  /** CEL of everything that is not allowed, for which a person is asked */
  rest: string;
  event_count: number;
  needed_count: number;
}

/** Learns the smallest set of rules that allows the recorded events. */
class Learner {
  readonly #makers = new Map<string, RuleMaker>();
  readonly #recorded = new Set<string>();
  readonly #unnamed: string[] = [];
  #events = 0;
  #needed = 0;

  add(event: LabEvent): void {
    this.#events++;
    const { actor, event_id } = event.common;
    if (!isNeeded(event)) return;
    this.#needed++;
    const family = familyOf(event.common.event_type);
    if (actor === "vm") this.#recorded.add(family);
    const need = needOf(event);
    if (!need) {
      if (this.#unnamed.length < UNNAMED_SHOWN) {
        this.#unnamed.push(`${event_id}: ${shown(subjectLine(event), 80)}`);
      }
      return;
    }
    this.#makerOf(family).add(need, event_id);
    const answer = answerNeedOf(event);
    if (answer) this.#makerOf(family).add(answer, event_id);
  }

  /**
   * @param taken ids of rules that the profile keeps
   * @throws {SbxError} `learn.empty`; `learn.unnamed`: an event has text that no rule can name
   */
  learned(taken: Iterable<string> = []): Learned {
    if (this.#needed === 0) throw emptyError();
    if (this.#unnamed.length > 0) {
      throw new SbxError(
        "learn.unnamed",
        `no rule can name the values of these events:\n${this.#unnamed.join("\n")}`,
        {
          hint: "leave the session out, or write a profile yourself: docs/guides/policy.md",
        },
      );
    }
    const ids = new Set(taken);
    const rules: LearnedRule[] = [];
    for (const family of FAMILIES) {
      const made = this.#makers.get(family)?.rules(ids) ?? [];
      for (const { id } of made) ids.add(id);
      rules.push(...made);
    }
    return {
      rules,
      rest: this.#rest(),
      event_count: this.#events,
      needed_count: this.#needed,
    };
  }

  /**
   * Programs of a VM and their file changes are asked about if any were recorded. Without a record of them
   * every one would be new. A secret file is always asked about; reads of other files are not on record.
   */
  #rest(): string {
    const exec = 'process.activity.operation == "exec"';
    return [
      "(has(http.request) && !is_private_host(http.request.host))",
      "has(dns.request)",
      "has(db.request)",
      "has(sign.request)",
      // Stays blocked by its default rule.
      '(has(mcp.request) && mcp.request.method != "sampling/createMessage")',
      "has(model.request)",
      this.#recorded.has("process") ? exec : `(${exec} && common.actor == "host")`,
      `(common.actor == "vm" && ${this.#recorded.has("file") ? `(${CHANGES} || ${SECRET})` : SECRET})`,
    ].join(" || ");
  }

  #makerOf(family: string): RuleMaker {
    let maker = this.#makers.get(family);
    if (!maker) this.#makers.set(family, maker = new RuleMaker());
    return maker;
  }
}

const SECRET = 'file.activity.path_class == "secret"';
/** Changes that are recorded: temporary files are left out. */
const CHANGES = '(file.activity.operation in ["write", "create", "delete", "rename"] && ' +
  'file.activity.path_class in ["workspace", "home", "system", "other"])';

/** Families in the order of the profile. */
const FAMILIES = allOf<typeof GOVERNED_FAMILIES[number]>()(
  "http",
  "dns",
  "db",
  "sign",
  "model",
  "mcp",
  "process",
  "file",
);
