/**
 * Limits of descriptors and of the messages that are read with them
 * (docs/design/contracts/14-limits.md §14).
 */

/** Longest message that is read for rules, in `bytes`, also once it is inflated. */
export const GRPC_MESSAGE_MAX = 1024 * 1024;
/** Most values of one message: fields, elements and keys, with those that it leaves at their default. */
export const GRPC_VALUES_MAX = 65_536;
/** Deepest nesting of messages. */
export const GRPC_NESTING_MAX = 32;
/** Longest file with descriptors, in `bytes`: `buf build` adds comments and places. */
export const GRPC_DESCRIPTOR_FILE_MAX = 16 * 1024 * 1024;
/** Most `bytes` of a profile's descriptors without those. */
export const GRPC_DESCRIPTORS_MAX = 2 * 1024 * 1024;
