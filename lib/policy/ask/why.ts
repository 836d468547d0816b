/** The reason that a program of a VM gives for its request, as people are shown it. */

/**
 * The reason on one line, in quotes that its text cannot end, and marked as words that nothing
 * has checked: it may look like a question of sbx, or like its answer. Terminals need it as
 * plain text. Empty without a reason.
 */
export function whyLine({ why }: { why?: string }): string {
  return why === undefined ? "" : `a program in the VM says: ${JSON.stringify(why)}`;
}
