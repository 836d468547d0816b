/** Questions that a person answers at the terminal with yes or no; no is the default. */

/** Asks a question. @returns true for `y` and `yes` alone; false also at the end of the input */
export function isYes(question: string): boolean {
  return /^y(es)?$/i.test(prompt(`${question} [y/N]`)?.trim() ?? "");
}
