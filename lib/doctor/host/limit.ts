/** Longest check, in `ms` (docs/contracts.md §11). */
export const PROBE_MS = 2000;
