/** The life of every VM of one home. */
export { corpLayer, profileLayer } from "./contract.ts";
export type { Detections } from "./detections.ts";
export type { Governance } from "./governance.ts";
export type { Notice } from "./notice.ts";
export { watchCorp } from "./refresh.ts";
export { Supervisor } from "./supervisor.ts";
export { checkCorp, checkSetting } from "./value_check.ts";
export { actionsOf, type Vm } from "./vm.ts";
