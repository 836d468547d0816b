/** Laboratory: candidate detections and rules over recorded sessions. */
export { effectOf, type RuleDifference, type RuleEffect, type RuleVerdict } from "./difference.ts";
export { readEventFile } from "./file.ts";
export { type LabBaseline, type LabEvent, type LabOptions, type LabSession, runLab } from "./lab.ts";
export type { DecisionChange, LabPolicy, LabReport, LabRule } from "./report.ts";
