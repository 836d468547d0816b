/**
 * Text without secrets, user names and addresses: for reports, bundles and logs
 * (docs/design/contracts/11-debug-report.md §11). Knows no domain.
 */
export { bitsOf, hasRun, isUuid, looksRandom } from "./entropy.ts";
export { findSecrets, type KnownSecrets, Redactor, type RedactorOptions } from "./redactor.ts";
export { REDACTED, type Span } from "./span.ts";
export { strengthOf } from "./name.ts";
