import { vmCommand } from "./each_vm.ts";

export const command = vmCommand({
  name: "resume",
  summary: "resume paused and suspended VMs",
  doing: "resuming",
  done: "resumed",
  examples: ["sbx resume demo"],
});
