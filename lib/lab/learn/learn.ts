import { SbxError } from "../../base/error/mod.ts";
import { allOf } from "../../base/list/mod.ts";
import { familyOf, type GOVERNED_FAMILIES } from "../../event/mod.ts";
import type { LabEvent } from "../mod.ts";
import { subjectLine } from "../../policy/mod.ts";
import { emptyError } from "./check.ts";
import { answerNeedOf, isNeeded, needOf } from "./need.ts";
import { type LearnedRule, RuleMaker } from "./rule.ts";
import { shown } from "./text.ts";

/** Most events that no rule can name which one error lists. */
const UNNAMED_SHOWN = 3;

/** Rules learned from sessions. */
export interface Learned {
  rules: LearnedRule[];
  /** CEL of everything that is not allowed, for which a person is asked */
  rest: string;
  event_count: number;
  needed_count: number;
}

/** Learns the smallest set of rules that allows the recorded events. */
export class Learner {
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
        `no rule can name what these events have:\n${this.#unnamed.join("\n")}`,
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
const FAMILIES = allOf<typeof GOVERNED_FAMILIES[number]>()("http", "dns", "model", "mcp", "process", "file");
