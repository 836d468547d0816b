import { vmCommand } from "./each_vm.ts";

export const command = vmCommand({
  name: "suspend",
  summary: "write VMs and their programs to disk, until sbx resume",
  doing: "suspending",
  done: "suspended",
  examples: ["sbx suspend demo"],
});
