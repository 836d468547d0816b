/** Descriptors of gRPC: the fields of messages, for rules (docs/design/contracts/05-policy.md §5, "gRPC"). */
export { GRPC_DESCRIPTORS_MAX, GRPC_MESSAGE_MAX, GRPC_NESTING_MAX, GRPC_VALUES_MAX } from "./limit.ts";
export { loadDescriptors } from "./load.ts";
export { type GrpcMethod, GrpcTypes, openTypes } from "./types.ts";
export { decodeMessage, type MessageValue, Unreadable } from "./decode.ts";
