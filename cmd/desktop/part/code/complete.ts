/** Completion of match expressions: fields of events, their values, and the words of CEL. */
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import { catalogue } from "../../../../lib/event/mod.ts";

const FIELDS: Completion[] = [...catalogue].map(([label, { cel, description }]) => ({
  label,
  type: "property",
  detail: cel,
  info: description,
}));

/** Words of CEL that rules use, with what is written for them. */
const WORDS: Completion[] = [
  ["has", "has("],
  ["contains", "contains("],
  ["startsWith", "startsWith("],
  ["endsWith", "endsWith("],
  ["matches", "matches("],
  ["size", "size("],
  ["exists", "exists("],
  ["all", "all("],
  ["in", "in "],
  ["true", "true"],
  ["false", "false"],
].map(([label, apply]) => ({ label, apply, type: "keyword" }));

/** A path compared with a text that is being written. */
const VALUE = /([\w.]+)\s*(?:==|!=)\s*(["'])([^"']*)$/;

/** What may stand at the cursor of a match expression. */
export function completeMatch(context: CompletionContext): CompletionResult | null {
  const before = context.state.sliceDoc(0, context.pos);
  const [, path, , written] = VALUE.exec(before) ?? [];
  if (path !== undefined) {
    const values = catalogue.get(path)?.values;
    if (!values) return null;
    const options = values.map((label) => ({ label, type: "enum" }));
    return { from: context.pos - written.length, options, validFor: /^[\w.-]*$/ };
  }
  const word = /[\w.]*$/.exec(before)![0];
  if (word === "" && !context.explicit) return null;
  return { from: context.pos - word.length, options: [...FIELDS, ...WORDS], validFor: /^[\w.]*$/ };
}
