/**
 * The one error type of sbx, the HTTP status of each code, and errors that are ignored
 * (docs/design/contracts/02-http.md §2).
 */
export { asSbxError, ifFound, ignore, SbxError, type SbxErrorOptions } from "./error.ts";
export { ASK_USER, type ErrorBody, errorBody, guestErrorBody, statusOf } from "./status.ts";
