import type { IrRule } from "../ir.ts";

/** The words by which a fixture can expect a rule: its id, its Sigma id, its title, or one of its tags. */
export function labelsOf({ id, sigma_id, title, tags }: IrRule): string[] {
  return [id, ...(sigma_id === undefined ? [] : [sigma_id]), title, ...tags];
}

/** Labels that no rule fulfilled, and rules that no label asked for. */
export interface LabelDifference {
  missed: string[];
  unexpected: string[];
}

/** Compares what was expected of an event with the rules that matched it. */
export function compareLabels(expected: readonly string[], matched: readonly IrRule[]): LabelDifference {
  const found = matched.map((rule) => ({ id: rule.id, labels: labelsOf(rule) }));
  return {
    missed: expected.filter((label) => !found.some(({ labels }) => labels.includes(label))),
    unexpected: found.filter(({ labels }) => !labels.some((label) => expected.includes(label))).map((
      { id },
    ) => id),
  };
}
