/** Random events of all families and random rules, from a few values, so that rules match. */
import { catalogue, type Event, EVENT_FAMILIES, type EventType } from "../../lib/event/mod.ts";
import type { DetectionIr, IrRule, MatchValue } from "../../lib/detection/mod.ts";
import { ir, rule } from "./detection.ts";
import { eventCommon } from "./event.ts";
import type { Random } from "./random.ts";

const TEXTS = [
  "",
  "a",
  "A",
  "example.com",
  "with 'quote' and \"quote\"",
  "back\\slash \\n",
  "{p1:String} $p1 ?",
  "tab\tline\nend\r",
  "nul\u0000nul",
  "ümläut 🦊",
  "\u2028",
  "' OR 1 = 1 --",
  "true",
  "0",
  "x".repeat(3000),
];
/** Types of events, from the catalogue. */
const EVENT_TYPES = catalogue.get("common.event_type")!.values!;
const NUMBERS = [0, 1, -1, 200, 404, 2 ** 40, Number.MAX_SAFE_INTEGER];

const scalars = [...catalogue].filter(([path, { type }]) =>
  ["string", "number", "bool"].includes(type) && path.split(".").length > 2
);

function valueOf(type: string, random: Random): MatchValue {
  return type === "string"
    ? random.pick(TEXTS)
    : type === "number"
    ? random.pick(NUMBERS)
    : random.below(2) === 1;
}

/** An event with some fields, and the response that it ends with, if it has one. */
export function randomEvent(session_id: string, random: Random): { event: Event; response?: unknown } {
  const event_type = random.pick(EVENT_TYPES) as EventType;
  const family = event_type.split(".")[0];
  const event: Record<string, unknown> = {
    schema_version: 1,
    common: eventCommon(event_type, { session_id }),
    [family]: {},
  };
  const end: Record<string, unknown> = {};
  for (const [path, { type }] of scalars) {
    const parts = path.split(".");
    if (parts[0] !== family || random.below(3) > 0) continue;
    const isEnd = parts[1] === "response";
    // Most responses come with the end, some with the event itself.
    const root = isEnd && random.below(5) > 0 ? { [family]: { response: end } } : event;
    let at = root as Record<string, unknown>;
    for (const part of parts.slice(0, -1)) at = (at[part] ??= {}) as Record<string, unknown>;
    at[parts.at(-1)!] = valueOf(type, random);
  }
  return { event: event as unknown as Event, ...(Object.keys(end).length > 0 && { response: end }) };
}

/** A pack of random rules over the same values. */
export function randomPack(count: number, random: Random): DetectionIr {
  const rules: IrRule[] = Array.from({ length: count }, (_, at) => {
    const family = random.pick(EVENT_FAMILIES.filter((name) => name !== "credential"));
    const fields = scalars.filter(([path]) => path.startsWith(`${family}.`));
    const tests: Record<string, MatchValue[]> = {};
    for (let left = 1 + random.below(2); left > 0; left--) {
      const [path, { type }] = random.pick(fields);
      tests[path] = Array.from({ length: 1 + random.below(4) }, () => valueOf(type, random));
    }
    return rule(`random-${at}`, tests, { event_family: family as IrRule["event_family"] });
  });
  return ir(rules, { pack_id: "random.pack" });
}
