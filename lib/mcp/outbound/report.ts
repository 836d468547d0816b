/** Reports of the aggregator over the private wire, checked: it runs code that talks to untrusted servers. */
import { isObject } from "../../base/object/mod.ts";
import type { Progress, ServerNotice } from "../entry.ts";

const NOTICES = ["notifications/message", "notifications/resources/updated"];

/** Reads the payload of a `Notice` frame. @returns `undefined` when it is malformed */
export function readNotice(payload: Uint8Array): ServerNotice | undefined {
  try {
    const { server, method, params } = JSON.parse(new TextDecoder().decode(payload));
    const isNotice = typeof server === "string" && NOTICES.includes(method) && isObject(params);
    return isNotice ? { server, method, params } : undefined;
  } catch {
    return undefined;
  }
}

/** Reads the payload of a `Progress` frame. @returns `undefined` when it is malformed */
export function readProgress(payload: Uint8Array): Progress | undefined {
  try {
    const { progress, total, message } = JSON.parse(new TextDecoder().decode(payload));
    if (typeof progress !== "number") return undefined;
    return {
      progress,
      ...(typeof total === "number" && { total }),
      ...(typeof message === "string" && { message }),
    };
  } catch {
    return undefined;
  }
}
