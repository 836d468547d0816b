/** Asks under random answers, tries, suspensions and changes of the rules. Seeds are fixed. */
import { assertEquals } from "@std/assert";
import type { Event } from "../../lib/event/mod.ts";
import { AskQueue } from "../../lib/policy/ask/queue.ts";
import { compilePolicy, type Decision } from "../../lib/policy/mod.ts";
import { eventCommon } from "../helper/event.ts";
import { Random } from "../helper/random.ts";
import { asking, post } from "../unit/policy/ask_world.ts";

const KINDS = ["A a.example", "AAAA a.example", "A b.example", "POST /", "POST /y"];
const ASKED = compilePolicy([asking("profile")]).evaluate(post()).decision;

function eventOf(kind: string, event_id: string): Event {
  const [type, name] = kind.split(" ");
  if (type !== "POST") {
    const dns = { request: { qname: name, qtype: type, transport: "udp" } };
    return { common: eventCommon("dns.query", { event_id }), dns, schema_version: 1 };
  }
  const event = post();
  event.common.event_id = event_id;
  event.http!.request.path = name;
  return event;
}

/** A queue, its events, and the faults of their decisions. */
class World {
  readonly faults: string[] = [];
  readonly waiting = new Set<string>();
  readonly #allowed = new Set<string>();
  readonly #queue = new AskQueue({
    onResolved: ({ ask_id, answer }) => answer?.decision === "allow" && this.#allowed.add(ask_id),
  });
  readonly #ends: Promise<void>[] = [];
  readonly #random: Random;
  /** decision of the rules on each kind; absent: they ask */
  #rules = new Map<string, "allow" | "block">();

  constructor(seed: number) {
    this.#random = new Random(seed);
  }

  step(): void {
    const [random, queue] = [this.#random, this.#queue];
    const [ids, asks] = [[...this.waiting], queue.pending()];
    const steps: (() => void)[] = [
      ...Array(4).fill(() => this.#ask(random.pick(KINDS))),
      () => ids.length > 0 && queue.leave(random.pick(ids), random.below(2) === 0),
      () => ids.length > 0 && queue.withdraw(random.pick(ids)),
      () => {
        if (asks.length === 0) return;
        const decision = random.pick(["allow", "deny"] as const);
        queue.resolve(random.pick(asks).ask_id, { decision, scope: random.pick(["once", "session"]) });
      },
      () => {
        const actions = ["allow", "block", undefined, undefined, undefined] as const;
        const rules = KINDS.map((kind) => [kind, random.pick(actions)] as const);
        this.#rules = new Map(rules.flatMap(([kind, action]) => action ? [[kind, action]] : []));
        queue.decideAgain();
      },
      () => random.below(2) ? queue.hold() : queue.release(),
      () => queue.restore(queue.take()),
    ];
    random.pick(steps)();
  }

  #ask(kind: string): void {
    if (this.#rules.has(kind)) return;
    const event_id = `${this.#ends.length}`;
    const event = eventOf(kind, event_id);
    const again = (): Decision => {
      const decision = this.#rules.get(kind) ?? "ask";
      return { ...ASKED, event_id, decision, rule: { ...ASKED.rule, id: kind } };
    };
    const taken: unknown[] = [];
    const decided = (by: Decision) => void taken.push(by.decision, this.#rules.get(kind));
    this.waiting.add(event_id);
    const asked = this.#queue.ask(event, { ...ASKED, event_id }, 300, event, undefined, { again, decided });
    this.#ends.push(asked.then((decision) => {
      this.waiting.delete(event_id);
      const { answered, rule: { id } } = decision;
      const isPerson = decision.decision === "block" || this.#allowed.has(answered!.ask_id);
      const isRight = answered?.by_rule === undefined
        ? isPerson && taken.length === 0
        : answered.by_rule === kind && id === kind && taken.length === 2 &&
          taken.every((each) => each === decision.decision);
      if (!isRight || decision.event_id !== event_id) {
        this.faults.push(`${kind}: ${JSON.stringify(decision)}`);
      }
    }));
  }

  async end(): Promise<void> {
    this.#queue.close();
    await Promise.all(this.#ends);
  }
}

Deno.test("an event goes by a person's answer, or by the changed rules on itself, and each ends once", async () => {
  for (let seed = 0; seed < 150; seed++) {
    const world = new World(seed);
    for (let at = 0; at < 60; at++) {
      world.step();
      if (at % 3 === 0) await Promise.resolve();
    }
    await world.end();
    assertEquals([world.faults, world.waiting.size], [[], 0], `seed ${seed}`);
  }
});
