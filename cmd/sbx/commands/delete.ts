import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "delete",
  summary: "remove VMs, and what is on their disks",
  method: "DELETE",
  doing: "deleting",
  done: "deleted",
  examples: ["sbx delete demo", "sbx delete demo copy"],
});
