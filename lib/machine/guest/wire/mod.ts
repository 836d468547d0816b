/**
 * Messages, limits and network constants shared by host and guest. Loads no zod: guest programs bundle this
 * folder.
 */
export { connectHost } from "./host.ts";
export {
  ACTIVITY_FRAME_LIMIT,
  ACTIVITY_LIMITS,
  BOOT_FILE_MODE,
  type BootFile,
  checkBootConfig,
  DNS_FRAME_LIMIT,
  ERROR_CHARACTERS,
  INLINE_BYTES,
  INPUT_WINDOW,
  isForbiddenVariable,
  MAX_BOOT_BYTES,
  MAX_BOOT_FILES,
  MAX_BOOT_VARIABLES,
  MCP_FRAME_LIMIT,
  MCP_RESULT_FRAME_LIMIT,
  TCP_FRAME_LIMIT,
  TCP_STREAMS_MAX,
} from "./limit.ts";
export * from "./messages.ts";
export { GUEST_VERSION } from "./version.ts";
export {
  CA_PATH,
  COMMANDS,
  COMMANDS_PATH,
  CONTAINER_APT_PATH,
  CONTAINER_FILES,
  CONTAINER_JAVA,
  CONTAINER_VARIABLES,
  GUEST_NETWORK,
  LAYER_PATH,
  LOG_GROUP,
  RULES_PATH,
  RUNTIMES_PATH,
  TRUST_BUNDLES,
  TRUST_VARIABLES,
} from "./network.ts";
