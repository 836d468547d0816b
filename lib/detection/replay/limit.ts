/** Default and maximum number of evidence rows (docs/design/contracts/14-limits.md §14). */
export const EVIDENCE_ROWS = 100;
export const EVIDENCE_ROWS_MAX = 1000;
