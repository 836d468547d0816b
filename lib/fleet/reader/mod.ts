/** Read-only service over a store: accounts by OpenID Connect, teams, roles, and a log of who asked what. */
export { Asked, AskedLog, readAsked } from "./asked.ts";
export { type Account, Accounts } from "./accounts.ts";
export { readClientSecret, ReaderFile, readReaderFile, type Rights, rightsOf } from "./config.ts";
export { type Reader, serveReader } from "./server.ts";
