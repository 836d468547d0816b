/**
 * Limits of the guest's MCP endpoint (docs/design/contracts/14-limits.md §14). Input from the
 * guest is untrusted.
 */
import { timeLimit } from "../../base/time/mod.ts";

/** `ms` for a list or a read (docs/design/contracts/08-mcp.md §8). */
export const REQUEST_TIMEOUT_MS = timeLimit(60_000);
/**
 * `ms` for `tools/call` (docs/design/contracts/08-mcp.md §8); the time in which a person is asked does not
 * count.
 */
export const CALL_TIMEOUT_MS = timeLimit(300_000);
/** `ms` in which a guest has to read at least one of the frames that wait for it. */
export const WRITE_TIMEOUT_MS = timeLimit(60_000);
/** Open connections per guest. */
export const CONNECTIONS_MAX = 64;
/** Concurrent requests per guest; bounds the memory of answers to as many frames. */
export const IN_FLIGHT_MAX = 64;
/**
 * Results on their way to a guest that have more than `LARGE_CHARS` characters;
 * bounds the memory of long ones.
 */
export const LARGE_RESULTS_MAX = 16;
export const LARGE_CHARS = 512 * 1024;
/** Frames that wait for the guest before notifications are dropped. */
export const WAITING_MAX = 64;
/** `bytes` of one page of a list; leaves room for the rest of the frame. */
export const PAGE_BYTES = 768 * 1024;
/** Characters of a tool or prompt name, of a process name, and of a URI. */
export const NAME_MAX = 512;
export const PROCESS_NAME_MAX = 256;
export const URI_MAX = 8192;
/** Characters of a request id, and of an error message. */
export const ID_MAX = 256;
export const MESSAGE_MAX = 4096;
/** Nesting levels and values of arguments. */
export const ARGUMENT_DEPTH_MAX = 64;
export const ARGUMENT_VALUES_MAX = 100_000;
/** Resources that connections of one guest are subscribed to. */
export const SUBSCRIPTIONS_MAX = 256;
/** Log messages of servers per minute that are decided on and passed to one guest; the rest is dropped. */
export const LOG_MESSAGES_PER_MINUTE = 120;
/** Requests of servers per minute that are decided on for one guest; more are refused without a record. */
export const SERVER_REQUESTS_PER_MINUTE = 60;
/** Items of a response, and characters of each text in it, stored in the ledger. */
export const KEPT_ITEMS_MAX = 1000;
export const KEPT_TEXT_MAX = 16 * 1024;

/** Limits that can be changed per endpoint. */
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
