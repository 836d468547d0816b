/** Bounds of everything that is read of a model call (issue 5): guests and upstreams decide what comes. */

/** Most bytes of a request's body that are read where models are known to be; providers take no more. */
export const REQUEST_MAX = 32 * 1024 * 1024;
/** Most where nobody expects one: a call is told by what its body looks like. */
export const PROBE_MAX = 1024 * 1024;
/** Most characters of a request's body in its event (contracts.md §5). */
export const BODY_TEXT_MAX = 64 * 1024;
/** Most bytes of a response that comes as one JSON text. */
export const RESPONSE_MAX = 16 * 1024 * 1024;
/** Longest line of a stream. */
export const LINE_MAX = 2 * 1024 * 1024;
/** Most tool calls of one response; the first ones are kept. */
export const TOOL_CALLS_MAX = 128;
/** Most characters of all tool calls' arguments together. */
export const ARGUMENTS_MAX = 1024 * 1024;
/** Longest name of a model, a tool or a stop reason. */
export const NAME_MAX = 256;
