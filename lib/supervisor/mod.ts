/** The life of every VM of one home. */
export type { Notice } from "./notice.ts";
export { Supervisor } from "./supervisor.ts";
export { actionsOf, type Vm } from "./vm.ts";
