/** Builder of match expressions as sentences, for people who do not write CEL. */
import { Icon } from "../../part/icon.tsx";
import { text } from "../../text/en.ts";
import {
  COMMON_FIELDS,
  type Condition,
  conditionsOf,
  type Kind,
  kindOf,
  KINDS,
  matchOf,
  type Operator,
  OPERATORS,
} from "./sentence.ts";

interface Props {
  match: string;
  onChange: (match: string) => void;
}

const ALL_KINDS = Object.keys(KINDS) as Kind[];
const FIRST = "http";

/**
 * A match expression as a sentence of chips; one that is more than a sentence is said to be, and stays text.
 */
export function SentenceBuilder({ match, onChange }: Props) {
  const words = text.rules.sentence;
  const conditions = conditionsOf(match);
  if (conditions === undefined) return <p class="hint">{words.beyond}</p>;
  const kind = kindOf(conditions) ?? FIRST;
  const fields = [...KINDS[kind], ...COMMON_FIELDS, ...conditions.map(({ field }) => field)];
  const put = (at: number, change: Partial<Condition>) =>
    onChange(matchOf(conditions.map((each, index) => index === at ? { ...each, ...change } : each)));
  const add = () => {
    const used = conditions.map(({ field }) => field);
    const field = KINDS[kind].find((each) => !used.includes(each)) ?? KINDS[kind][0];
    onChange(matchOf([...conditions, { field, operator: "is", values: [""] }]));
  };
  return (
    <fieldset class="sentence">
      <legend>{words.title}</legend>
      <label class="chip">
        {words.when}{" "}
        <select
          value={kind}
          onChange={({ currentTarget: { value } }) =>
            onChange(matchOf([{ field: KINDS[value as Kind][0], operator: "is", values: [""] }]))}
        >
          {ALL_KINDS.map((each) => <option key={each} value={each}>{words.kinds[each]}</option>)}
        </select>
      </label>
      {conditions.map((condition, at) => (
        <span key={at} class="chip" role="group" aria-label={words.condition(at + 1)}>
          <span>{at === 0 ? words.has : words.and}</span>
          <select
            aria-label={words.field}
            value={condition.field}
            onChange={({ currentTarget }) =>
              put(at, { field: currentTarget.value })}
          >
            {[...new Set(fields)].map((field) => (
              <option key={field} value={field}>{words.fields[field] ?? field}</option>
            ))}
          </select>
          <select
            aria-label={words.operator}
            value={condition.operator}
            onChange={({ currentTarget }) =>
              put(at, changedOperator(condition, currentTarget.value as Operator))}
          >
            {OPERATORS.map((each) => <option key={each} value={each}>{words.operators[each]}</option>)}
          </select>
          <input
            aria-label={words.value}
            placeholder={condition.operator === "in" ? words.several : undefined}
            autocomplete="off"
            spellcheck={false}
            value={condition.values.join(", ")}
            onInput={({ currentTarget }) =>
              put(at, { values: valuesOf(condition.operator, currentTarget.value) })}
          />
          <button
            type="button"
            class="ghost"
            aria-label={words.removeOf(at + 1)}
            onClick={() =>
              onChange(matchOf(conditions.filter((_, index) =>
                index !== at
              )))}
          >
            <Icon name="close" />
          </button>
        </span>
      ))}
      <button type="button" class="ghost" onClick={add}>
        <Icon name="plus" /> {words.add}
      </button>
    </fieldset>
  );
}

/** Of several values, one is kept where the operator takes one. */
function changedOperator({ values }: Condition, operator: Operator): Partial<Condition> {
  return { operator, values: operator === "in" ? values : [values.join(", ")] };
}

function valuesOf(operator: Operator, written: string): string[] {
  return operator === "in" ? written.split(/, ?/) : [written];
}
