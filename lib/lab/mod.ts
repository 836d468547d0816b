/** Laboratory: candidate detections and rules over recorded sessions. */
export { readEventFile } from "./file.ts";
export { type LabBaseline, type LabEvent, type LabOptions, type LabSession, runLab } from "./lab.ts";
export type { DecisionChange, LabPolicy, LabReport, LabRule } from "./report.ts";
