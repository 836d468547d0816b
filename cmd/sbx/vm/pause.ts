import { vmCommand } from "./each_vm.ts";

export const command = vmCommand({
  name: "pause",
  summary: "pause VMs; they keep their memory",
  doing: "pausing",
  done: "paused",
  examples: ["sbx pause demo"],
});
