import { vmCommand } from "../each_vm.ts";

export const command = vmCommand({
  name: "delete",
  summary: "delete VMs with their disks and workspaces",
  method: "DELETE",
  doing: "deleting",
  done: "deleted",
  examples: ["sbx delete demo", "sbx delete demo copy"],
});
