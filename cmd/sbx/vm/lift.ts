import { vmCommand } from "./each_vm.ts";

export const command = vmCommand({
  name: "lift",
  summary: "let VMs go on that a finding holds back",
  doing: "lifting",
  done: "lifted",
  examples: ["sbx lift demo"],
});
