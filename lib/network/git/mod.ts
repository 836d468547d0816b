/**
 * Git's smart HTTP protocol, as far as policy reads it: requests, the commands of pushes, refusals
 * (docs/design/contracts/05-policy.md §5).
 */
export { COMMANDS_MAX, type GitUpdate, type PushReading, readPush } from "./push.ts";
export {
  formatError,
  formatPushRefusal,
  formatRefusal,
  type GitReply,
  type GitRequest,
  gitRequestOf,
  type GitService,
  mayBeGit,
} from "./request.ts";
