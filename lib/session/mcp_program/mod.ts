/**
 * Programs of stdio MCP servers, each in a VM of its own (docs/design/contracts/08-mcp.md §8, "Stdio
 * servers").
 */
export { type AssignedVm, ProgramVms } from "./vms.ts";
