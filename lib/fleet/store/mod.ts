/** The store of a fleet: a folder with segments, reports and machines, which several receivers may share. */
export { keepFile } from "./keep.ts";
export { positionOf, reportPath, segmentName, sessionFolder, storePaths } from "./layout.ts";
