/**
 * Methods that servers take instead of a request's own (docs/design/contracts/05-policy.md §5, "Methods"):
 * frameworks read one from a header, from the query or from a form, so that browsers can send it.
 */
import { type Event, type HttpBody, isMethodOverride } from "../../event/mod.ts";
import { withValue } from "./rewrite.ts";

/** Most methods that one request may name; more are refused, since each costs an evaluation. */
const METHODS_MAX = 8;
/** Parameters of a query or a form (Rails, Laravel, Symfony, WordPress; Salesforce), in lower case. */
const PARAMETER = /^_(?:http)?method$/i;
const METHOD = /^[A-Z]{1,32}$/;
/** Name of a part of a `multipart/form-data` body. */
const PART = /\bname\s*=\s*"?_(?:http)?method\b/gi;
/** End of the head of a part, and its beginning. */
const PART_BODY = /\n\r?\n([A-Za-z]+)/;
/** Most parts of one name that are read; a form has one. */
const PARTS_MAX = 64;

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
  if (request.body?.text) named.push(...methodsOf(request.body, request.body.text));
  if (named.length === 0) return [];
  const methods = new Set(named.map((name) => name.trim().toUpperCase()).filter((name) => METHOD.test(name)));
  methods.delete(request.method);
  if (methods.size > METHODS_MAX) throw new Error(`the request names more than ${METHODS_MAX} methods`);
  return [...methods].map((method) => withValue(event, "http.request.method", method));
}

/** Methods in a body: of a form, or of JSON, which some frameworks read as one. */
function methodsOf({ content_type = "" }: HttpBody, text: string): string[] {
  const type = content_type.toLowerCase();
  // Names in bodies are exact, and `includes` takes a tenth of a pattern's time.
  const isNamed = text.includes("_method") || text.includes("_httpMethod");
  if (type.includes("multipart/")) return isNamed ? partsOf(text) : [];
  if (type.includes("x-www-form-urlencoded")) return isNamed || text.includes("%") ? parametersOf(text) : [];
  if (!type.includes("json") || !isNamed && !text.includes("\\u00")) return [];
  return [...text.replace(LETTER, unescapeLetter).matchAll(MEMBER)].map(([, method]) => method);
}

/** @throws {Error} more than {@linkcode PARTS_MAX} parts */
function partsOf(text: string): string[] {
  const methods: string[] = [];
  let count = 0;
  for (const { index } of text.matchAll(PART)) {
    if (++count > PARTS_MAX) throw new Error(`the request names a method more than ${PARTS_MAX} times`);
    const method = PART_BODY.exec(text.slice(index))?.[1];
    if (method !== undefined) methods.push(method);
  }
  return methods;
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
