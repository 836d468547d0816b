/**
 * Git's smart HTTP protocol, as far as policy reads it: requests, the commands of pushes, refusals
 * (docs/design/contracts/05-policy.md §5).
 */
export { COMMANDS_MAX } from "./packet.ts";
export { type GitUpdate, type PushReading, readPush } from "./push.ts";
export { type GitRequest, gitRequestOf, type GitService, mayBeGit } from "./request.ts";
export { formatRefusal, type GitReply } from "./reply.ts";
