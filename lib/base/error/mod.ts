/** The one error type of sbx, and the HTTP status of each code (docs/design/contracts/02-http.md §2). */
export { asSbxError, SbxError, type SbxErrorOptions } from "./error.ts";
export { ASK_USER, guestErrorBody } from "./guest.ts";
export { type ErrorBody, errorBody, statusOf } from "./status.ts";
