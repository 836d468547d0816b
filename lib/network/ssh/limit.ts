/** Limits of SSH (docs/design/contracts/14-limits.md §14). */

/** Most SSH connections of a VM: the library buffers 2 MiB for each direction of a session. */
export const SSH_CONNECTIONS_MAX = 16;
/** Most open sessions of one connection. */
export const SESSIONS_MAX = 8;
/** Longest command line, and name of a subsystem, in characters. */
export const COMMAND_MAX = 8192;
/** Longest name of a user, in characters. */
export const USER_MAX = 128;
/** Most `bytes` on their way to one side that the other side waits for. */
export const BACKLOG_MAX = 4 * 1024 * 1024;
/** Most `bytes` that a side sends and gets none back: data is answered by a larger window. */
export const SILENT_MAX = 16 * 1024 * 1024;
/**
 * Most `bytes` of a refused push that are read and dropped: git reads no answer before it has sent its pack.
 */
export const REFUSED_PACK_MAX = 64 * 1024 * 1024;
