/** Applies the rewrites of rules to a request. */
import { SbxError } from "../../base/error/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import type { HttpBody, HttpEvent } from "../../event/mod.ts";
import { isMethod } from "../message/head.ts";
import { eventValue, type Header } from "../message/header.ts";
import { encodeByteText } from "../message/latin1.ts";
import { charsetOf } from "../message/text.ts";
import type { BufferedBody } from "./body_buffer.ts";
import type { CapturedHead } from "./request.ts";

type HttpRequest = HttpEvent["request"];

/**
 * Rewrites a head as rules changed its event.
 *
 * @param before the request of the event before the rules
 * @param after the request of the event after the rules
 * @throws {SbxError} `policy.rewrite.invalid` for a result that cannot be sent
 */
export function rewriteHead(head: CapturedHead, before: HttpRequest, after: HttpRequest): CapturedHead {
  const { method, path, query } = after;
  const isSameTarget = path === before.path && query === before.query;
  const target = isSameTarget ? head.target : encodeByteText(path + (query === "" ? "" : `?${query}`));
  if (
    !isMethod(method) || !/^(\/|\*$)[\x21-\x7e\x80-\xff]*$/.test(target) ||
    !isSameTarget && !isCanonical(path)
  ) {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote the request to one that cannot be sent", {
      hint:
        "method and path have no spaces; a path begins with / and has no dot segments or needless escapes",
    });
  }
  const headers = after.headers === before.headers
    ? head.headers
    : rewriteHeaders(head.headers, after.headers);
  return { method, target, headers };
}

/** Fields of an event that are written by the connection to the upstream. */
const CONNECTION_FIELDS = new Set(["host", "upgrade"]);

/** Writes the path in its one spelling, which is sent and which later readers get. */
function isCanonical(path: string): boolean {
  return path === "*" || canonicalPath(path).path === path;
}

/** Unchanged values are sent as they came: the event may hold them redacted or decoded. */
function rewriteHeaders(headers: readonly Header[], after: Record<string, string[]>): Header[] {
  const before = Map.groupBy(headers, ([name]) => name);
  return Object.entries(after).filter(([name]) => !CONNECTION_FIELDS.has(name)).flatMap(([name, values]) =>
    values.map((value, at): Header => {
      const original = before.get(name)?.[at]?.[1];
      if (original !== undefined && eventValue(name, original) === value) return [name, original];
      if (!/^[\t\x20-\x7e\x80-\uffff]*$/.test(value)) {
        throw new SbxError(
          "policy.rewrite.invalid",
          `a rule rewrote the header ${name} to a value that cannot be sent`,
          { hint: "header values have no control characters" },
        );
      }
      return [name, encodeByteText(value)];
    })
  );
}

/** Upgrade to ask the upstream for; `undefined` when the rules removed it. */
export function rewriteUpgrade(upgrade: string | undefined, after: HttpRequest): string | undefined {
  return after.headers["upgrade"]?.[0] === upgrade ? upgrade : undefined;
}

/**
 * Rewrites a body as rules changed its event; `undefined` when they left it unchanged.
 *
 * @throws {SbxError} `policy.rewrite.invalid` when the event did not hold the whole body
 */
export function rewriteBody(body: BufferedBody, before: HttpBody, after: HttpBody): Uint8Array | undefined {
  const { text } = after;
  if (text === before.text || text === undefined) return undefined;
  if (!body.complete || before.truncated) {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote a body that is too long to be rewritten", {
      hint: "let the rule match http.request.body.truncated == false",
    });
  }
  if (before.state !== "text" || charsetOf(before.content_type ?? "") !== "utf-8") {
    throw new SbxError("policy.rewrite.invalid", "a rule rewrote a body that is not UTF-8 text", {
      hint: 'let the rule match http.request.body.state == "text"',
    });
  }
  return new TextEncoder().encode(text);
}
