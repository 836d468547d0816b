/**
 * Methods that servers take instead of a request's own (docs/contracts.md §5, "Methods"): frameworks read one from a
 * header, from the query or from a form, so that browsers can send it.
 */
import { type Event, type HttpBody, isMethodOverride } from "../../event/mod.ts";
import { withValue } from "./rewrite.ts";

/** Most methods that one request may name; more are refused, since each costs an evaluation. */
const METHODS_MAX = 8;
/** Parameters of a query or a form (Rails, Laravel, Symfony, WordPress; Salesforce), in lower case. */
const PARAMETER = /^_(?:http)?method$/i;
const METHOD = /^[A-Z]{1,32}$/;
/** A part of a `multipart/form-data` body with such a name. */
const PART = /\bname="?_(?:http)?method"?[^\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n([A-Za-z]+)/gi;

/** A member of a JSON object with such a name; the text may be cut, so it is not parsed. */
const MEMBER = /(?<!\\)"_(?:http)?method"\s*:\s*"([A-Za-z]+)"/gi;
/** An escaped letter or `_` in JSON. */
const LETTER = /\\u00([4-7][0-9a-f])/gi;

/**
 * A request as servers may read its method otherwise; mostly none.
 *
 * @throws {Error} more than {@linkcode METHODS_MAX} methods
 */
export function methodReadings(event: Event): Event[] {
  const request = event.http?.request;
  if (request?.method === undefined) return [];
  const named: string[] = [];
  for (const name in request.headers) {
    if (isMethodOverride(name)) named.push(...request.headers[name].flatMap((value) => value.split(",")));
  }
  if (request.query) named.push(...parametersOf(request.query));
  if (request.body?.text) named.push(...methodsOf(request.body));
  if (named.length === 0) return [];
  const methods = new Set(named.map((name) => name.trim().toUpperCase()).filter((name) => METHOD.test(name)));
  methods.delete(request.method);
  if (methods.size > METHODS_MAX) throw new Error(`the request names more than ${METHODS_MAX} methods`);
  return [...methods].map((method) => withValue(event, "http.request.method", method));
}

/** Methods in a body: of a form, or of JSON, which some frameworks read as one. */
function methodsOf({ text = "", content_type = "" }: HttpBody): string[] {
  const type = content_type.toLowerCase();
  if (type.includes("multipart/")) return [...text.matchAll(PART)].map(([, method]) => method);
  if (type.includes("x-www-form-urlencoded")) return parametersOf(text);
  if (!type.includes("json")) return [];
  return [...text.replace(LETTER, unescapeLetter).matchAll(MEMBER)].map(([, method]) => method);
}

function parametersOf(text: string): string[] {
  // An escape may hide each letter of the name.
  if (!/method|%/i.test(text)) return [];
  return [...new URLSearchParams(text.replaceAll(";", "&"))]
    .filter(([name]) => PARAMETER.test(name)).map(([, value]) => value);
}

function unescapeLetter(_: string, digits: string): string {
  return String.fromCharCode(parseInt(digits, 16));
}
