/** Decision records and their words (docs/design/contracts/05-policy.md §5). Loads no rule engine. */
export {
  afterAsk,
  answerLine,
  applyAnswer,
  failedEvaluation,
  GUARD_EVALUATION,
  guardDecision,
  guardRemedy,
  guestLine,
  type GuestRefusal,
  guestRefusal,
  isGuard,
} from "./decision.ts";
export * from "./decision.ts";
export { subjectLine, subjectWithError, updatesLine } from "./subject.ts";
