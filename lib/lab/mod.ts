/** The laboratory: what detections and rules would have said of sessions that are over. */
export { type LabBaseline, type LabEvent, type LabOptions, type LabSession, runLab } from "./lab.ts";
export type { DecisionChange, LabPolicy, LabReport, LabRule } from "./report.ts";
