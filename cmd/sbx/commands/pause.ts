import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "pause",
  summary: "pause VMs; they keep their memory",
  method: "POST",
  doing: "pausing",
  done: "paused",
  examples: ["sbx pause demo"],
});
