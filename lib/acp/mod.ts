/**
 * The Agent Client Protocol: an editor on the host and an agent in a VM, which speak through sbx
 * (docs/guides/editors.md).
 */
export { type AskAnswers, Asks } from "./ask.ts";
export { agentError, errorOut } from "./error.ts";
export { FILE_MAX, type FileAccess, fileOf } from "./file.ts";
export { GUEST_MESSAGE_MAX, GUEST_REQUESTS_MAX, type Pipes } from "./guard.ts";
export { promptIn } from "./inward.ts";
export { OWN_CALL, toolCallOut, updateOut } from "./outward.ts";
export { type Folder, Place } from "./place.ts";
export { type Backend, EDITOR_MESSAGE_MAX, relay, type RelayOptions } from "./relay.ts";
