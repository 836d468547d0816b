import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "suspend",
  summary: "write VMs to disk and free their memory; sbx resume brings them back with their programs",
  doing: "suspending",
  done: "suspended",
  examples: ["sbx suspend demo"],
});
