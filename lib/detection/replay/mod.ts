/** Detections over recorded events: backtests, hunts and their evidence. */
export { backtest, type BacktestCase, INLINE_CORPUS } from "./backtest.ts";
export {
  type Check,
  checkEvents,
  type CheckFinding,
  type CheckOptions,
  type CheckReport,
  FINDINGS_MAX,
  type LabelResult,
  STRICT_LINES,
} from "./check.ts";
export * from "./evidence.ts";
export { hunt, type HuntOptions, SESSION_CORPUS } from "./hunt.ts";
export { junitOf } from "./junit.ts";
