/** Limits of the guest's MCP endpoint (contracts.md §7, §8). The guest's bytes are hostile. */

/** Most bytes in one frame (contracts.md §7). */
export const MCP_FRAME_LIMIT = 1024 * 1024;
/** Milliseconds that a list or a read may take (contracts.md §8). */
export const REQUEST_TIMEOUT_MS = 60_000;
/** Milliseconds that `tools/call` may take (contracts.md §8); the time in which a person is asked is not of it. */
export const CALL_TIMEOUT_MS = 300_000;
/** Milliseconds in which a guest that is sent something has to take at least one frame. */
export const WRITE_TIMEOUT_MS = 60_000;
/** Connections that one guest may hold open. */
export const CONNECTIONS_MAX = 64;
/** Requests of one guest that may be under way at once: its answers take at most this many frames of memory. */
export const IN_FLIGHT_MAX = 64;
/** Frames that may wait for the guest before notifications, which nobody has to get, are dropped. */
export const WAITING_MAX = 64;
/** Bytes of one page of a list; the rest of the frame is for what stands around it. */
export const PAGE_BYTES = 768 * 1024;
/** Characters of the name of a tool or a prompt, of the name of a process, and of a URI. */
export const NAME_MAX = 512;
export const PROCESS_NAME_MAX = 256;
export const URI_MAX = 8192;
/** Characters of a request's id, and of an error's message. */
export const ID_MAX = 256;
export const MESSAGE_MAX = 4096;
/** How deep arguments may be nested, and how many values they may hold. */
export const ARGUMENT_DEPTH_MAX = 64;
export const ARGUMENT_VALUES_MAX = 100_000;
/** Items of an answer, and characters of one of its texts, that the ledger keeps. */
export const KEPT_ITEMS_MAX = 1000;
export const KEPT_TEXT_MAX = 16 * 1024;

/** What may be set otherwise for one endpoint. */
export interface EndpointLimits {
  requestTimeoutMs: number;
  callTimeoutMs: number;
  writeTimeoutMs: number;
  connections: number;
  inFlight: number;
}

export const LIMITS: EndpointLimits = {
  requestTimeoutMs: REQUEST_TIMEOUT_MS,
  callTimeoutMs: CALL_TIMEOUT_MS,
  writeTimeoutMs: WRITE_TIMEOUT_MS,
  connections: CONNECTIONS_MAX,
  inFlight: IN_FLIGHT_MAX,
};
