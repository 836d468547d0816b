/** Decision records and their words (docs/design/contracts/05-policy.md §5). Loads no rule engine. */
export { afterAsk, answerLine, applyAnswer } from "./answer.ts";
export * from "./decision.ts";
export { guestLine, type GuestRefusal, guestRefusal } from "./guest.ts";
export { failedEvaluation, GUARD_EVALUATION, guardDecision, guardRemedy } from "./guard.ts";
export { isGuard } from "./decision.ts";
export { subjectLine, subjectWithError, updatesLine } from "./subject.ts";
