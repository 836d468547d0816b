/** Frames between sbx-service and the sbx-process of each VM (contracts.md §7). */
export { ask, IpcCall } from "./client.ts";
export { greet, schemaHash } from "./hello.ts";
export { Call, type ExecCall, type Input, IPC_VERSION, MachineInfo, type Reply } from "./schema.ts";
export { type Caller, CallServer } from "./server.ts";
