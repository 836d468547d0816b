/** OAuth of MCP servers, on the host. Loaded with the first login: it brings the SDK's OAuth client. */
export { challengeOf, cleanScope } from "./discover.ts";
export { beginLogin, type LoginRequest, renewLogin, type WaitingLogin } from "./login.ts";
export { LOGINS_MAX } from "../limit.ts";
