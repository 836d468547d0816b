/** Notifications of servers that are passed on. */
import type { ServerNotice } from "../entry.ts";
import { NOTICE_BYTES_MAX } from "../limit.ts";
import { namespacedUri } from "../name.ts";
import { byteLength } from "../ndjson.ts";

export const UPDATED = "notifications/resources/updated";
const LOGGED = "notifications/message";

/** @returns `undefined` for any other notification, and for one that is too large */
export function noticeOf(
  server: string,
  method: string,
  params: Record<string, unknown>,
): ServerNotice | undefined {
  if (method === UPDATED && typeof params.uri === "string") {
    return { server, method, params: { uri: namespacedUri(server, params.uri) } };
  }
  if (method !== LOGGED) return undefined;
  const { level, logger, data } = params;
  if (byteLength(JSON.stringify(params)) > NOTICE_BYTES_MAX) return undefined;
  return { server, method, params: { level, logger, data } };
}
