import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "resume",
  summary: "resume paused VMs",
  method: "POST",
  doing: "resuming",
  done: "resumed",
  examples: ["sbx resume demo"],
});
