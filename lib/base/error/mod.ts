/** The one error type of sbx, the HTTP status of each code, and errors that are ignored (docs/design/contracts/02-http.md §2). */
export { asSbxError, SbxError, type SbxErrorOptions } from "./error.ts";
export { ASK_USER, guestErrorBody } from "./guest.ts";
export { ifFound, ignore } from "./ignore.ts";
export { type ErrorBody, errorBody, statusOf } from "./status.ts";
