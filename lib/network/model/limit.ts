/** Limits for model calls; requests and responses are untrusted. */

/** Maximum `bytes` of a request body on a known model path, as much as the network holds of any. */
export const REQUEST_MAX = 8 * 1024 * 1024;
/** Maximum `bytes` of a request body elsewhere, where a call is recognized by its shape. */
export const PROBE_MAX = 1024 * 1024;
/** Maximum characters of a request body in an event (docs/design/contracts/05-policy.md §5). */
export const BODY_TEXT_MAX = 64 * 1024;
/** Maximum characters of a response that is one JSON text. */
export const RESPONSE_MAX = 16 * 1024 * 1024;
/** Maximum characters of a stream line or event. */
export const LINE_MAX = 2 * 1024 * 1024;
/** Maximum nesting of a request body that is read. */
export const JSON_DEPTH_MAX = 200;
/** Maximum number of tool calls per response; the first ones are recorded. */
export const TOOL_CALLS_MAX = 128;
/** Maximum characters of all tool call arguments of a response. */
export const ARGUMENTS_MAX = 1024 * 1024;
/** Maximum characters of a model name, tool name or stop reason. */
export const NAME_MAX = 256;
