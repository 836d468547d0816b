/**
 * Text without secrets, user names and addresses: for reports, bundles and logs
 * (docs/design/contracts/11-debug-report.md §11). Knows no domain.
 */
export { bitsOf, hasRun, isUuid } from "./entropy.ts";
export { type KnownSecrets, Redactor, type RedactorOptions } from "./redactor.ts";
export { REDACTED } from "./span.ts";
