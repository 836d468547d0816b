/** Laboratory: candidate detections and rules over recorded sessions. */
export {
  effectAcross,
  effectOf,
  type RuleDifference,
  type RuleEffect,
  type RuleVerdict,
} from "./difference.ts";
export { readEventFile } from "./file.ts";
export {
  type DecisionChange,
  type LabBaseline,
  type LabEvent,
  type LabOptions,
  type LabPolicy,
  type LabReport,
  type LabRule,
  type LabSession,
  runLab,
} from "./lab.ts";
