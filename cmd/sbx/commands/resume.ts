import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "resume",
  summary: "let paused VMs go on",
  method: "POST",
  doing: "resuming",
  done: "resumed",
  examples: ["sbx resume demo"],
});
