/** Read-only service over a store: accounts by OpenID Connect, teams, roles, and a log of who asked what. */
export { Asked, AskedLog, readAsked, shownAsked } from "./asked.ts";
export { Accounts } from "./accounts.ts";
export {
  type Account,
  readClientSecret,
  ReaderFile,
  readReaderFile,
  type Rights,
  rightsOf,
} from "./config.ts";
export { serveReader } from "./server.ts";
