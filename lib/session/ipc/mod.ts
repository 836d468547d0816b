/** Frames between sbx-service and the sbx-process of each VM (docs/design/contracts/07-guest-wire.md §7). */
export { call, CallStream } from "./calls.ts";
export { greet, schemaHash } from "./calls.ts";
export {
  type BootCall,
  Call,
  type CallKind,
  type ExecCall,
  type GuestFileCall,
  type Input,
  IPC_VERSION,
  MachineInfo,
  type McpNeed,
  REPLIES,
  type Reply,
  type ReplyTo,
  type SingleKind,
  type StreamKind,
  type SuspendedBy,
} from "./schema.ts";
export { type Caller, CallServer } from "./calls.ts";
export { giveMachine, giveSession, NO_SESSION, receiveOrders, type SpareMachineOrder } from "./spare.ts";
