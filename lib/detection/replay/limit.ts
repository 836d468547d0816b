/** Default and maximum number of evidence rows (docs/contracts.md §14). */
export const EVIDENCE_ROWS = 100;
export const EVIDENCE_ROWS_MAX = 1000;
