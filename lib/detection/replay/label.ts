import type { CompiledRule } from "../compiled.ts";

/** Labels that select a rule in a fixture: its id, Sigma id, title and tags. */
function labelsOf({ id, sigma_id, title, tags }: CompiledRule): string[] {
  return [id, ...(sigma_id === undefined ? [] : [sigma_id]), title, ...tags];
}

/** Labels without a matching rule, and ids of rules without an expected label. */
export interface LabelDifference {
  missed: string[];
  unexpected: string[];
}

/** Compares the expected labels of an event with its matching rules. */
export function compareLabels(
  expected: readonly string[],
  matched: readonly CompiledRule[],
): LabelDifference {
  const rules = matched.map((rule) => ({ id: rule.id, labels: labelsOf(rule) }));
  return {
    missed: expected.filter((label) => !rules.some(({ labels }) => labels.includes(label))),
    unexpected: rules.filter(({ labels }) => !labels.some((label) => expected.includes(label))).map((
      { id },
    ) => id),
  };
}
