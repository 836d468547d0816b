/**
 * Typed HTTP handlers: validates a request by its route's definition, and encodes the answer or the error.
 */
import type { RouteConfig } from "@hono/zod-openapi";
import type { Context, Hono } from "hono";
import type { z } from "zod";
import { SbxError } from "../../lib/base/error/mod.ts";
import { API_VERSION, API_VERSION_HEADER, VERSION } from "../../lib/base/version/mod.ts";
import { canonicalJson, NestingError, parseJson, ReservedKeyError } from "../../lib/base/json/mod.ts";
import { IDEMPOTENCY_KEY, type Params } from "../../lib/client/api/mod.ts";
import { describeIssue, pathText } from "../../lib/base/toml/mod.ts";
import { userName } from "../../lib/base/user/mod.ts";
import type { AnsweredBy } from "../../lib/policy/mod.ts";
import { readTraceparent } from "../../lib/event/mod.ts";
import type { Asked, Trace } from "../../lib/service/mod.ts";

type JsonOf<S> = { content: { "application/json": { schema: S } } };
type QueryOf<R> = R extends { request: { query: infer Q extends z.ZodType } } ? z.output<Q>
  : Record<string, never>;
type BodyOf<R> = R extends { request: { body: JsonOf<infer S extends z.ZodType> } } ? z.output<S> : undefined;
type AnswerOf<R> = R extends { responses: { 200: JsonOf<infer S extends z.ZodType> } } ? z.input<S> : unknown;

/** A request, validated by the zod definitions of its route. */
export interface Input<R extends RouteConfig> {
  params: Params<R["path"]>;
  query: QueryOf<R>;
  body: BodyOf<R>;
  context: Context;
}

/** Limit of a JSON body in `bytes` (docs/design/contracts/02-http.md §2). */
const BODY_LIMIT = 10 * 1024 * 1024;

/**
 * Serves one route. Its definition validates params, query and JSON body, and names every error before the
 * handler runs. The handler returns a value for JSON, or its own Response.
 */
export function handle<R extends RouteConfig>(
  app: Hono,
  route: R,
  handler: (input: Input<R>) => AnswerOf<R> | Response | Promise<AnswerOf<R> | Response>,
): void {
  const path = route.path.replaceAll(/{(\w+)}/g, ":$1");
  app.on(route.method.toUpperCase(), path, async (context) => {
    const query = route.request?.query
      ? check(route.request.query as z.ZodType, context.req.query(), "query")
      : {};
    // Checked by the definitions behind these types.
    const input = {
      params: context.req.param(),
      query,
      body: await jsonBody(route, context),
      context,
    } as Input<R>;
    const result = await handler(input);
    return result instanceof Response ? result : context.json(result as object);
  });
}

async function jsonBody(route: RouteConfig, context: Context): Promise<unknown> {
  const definition = route.request?.body;
  const content = definition?.content["application/json"];
  const schema = content && "schema" in content ? content.schema as z.ZodType : undefined;
  if (!definition && context.req.raw.body && (await readBody(context.req.raw)).length > 0) {
    throw new SbxError("request.unknown_field", `${context.req.method} ${context.req.path} takes no body`);
  }
  if (!definition || !schema) return undefined;
  const bytes = await readBody(context.req.raw);
  if (bytes.length === 0 && !definition.required) return schema.parse({});
  const type = context.req.header("content-type")?.split(";")[0].trim().toLowerCase();
  if (type !== "application/json") {
    throw new SbxError("request.media_type", "this route takes a JSON body", {
      hint: "send Content-Type: application/json",
    });
  }
  let value: unknown;
  try {
    value = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    if (cause instanceof NestingError || cause instanceof ReservedKeyError) {
      throw new SbxError("request.invalid", `the request body is ${cause.message}`, { cause });
    }
    throw new SbxError("request.malformed", "the request body is not JSON", { cause });
  }
  return check(schema, value, "body");
}

/** Reads a body up to the limit; the Content-Length of the client is not trusted. */
export async function readBody(request: Request): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > BODY_LIMIT) {
      throw new SbxError("request.too_large", `a body may have at most ${BODY_LIMIT} bytes`);
    }
    chunks.push(chunk);
  }
  if (chunks.length === 1) return chunks[0];
  const bytes = new Uint8Array(size);
  for (let at = 0, i = 0; i < chunks.length; at += chunks[i++].length) bytes.set(chunks[i], at);
  return bytes;
}

/** Converts a message about TOML: a table is an object in JSON. */
function toJsonWords(message: string): string {
  return message.replace(/^must be a table$/, "must be an object");
}

/**
 * @throws {SbxError} 422 `request.unknown_field` or `request.malformed` for the shape,
 * 400 `request.invalid` for a value
 */
function check(schema: z.ZodType, value: unknown, where: string): unknown {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const text = result.error.issues.flatMap((issue) => describeIssue(issue, schema))
    .map(({ path, message }) => `${pathText(path) || where}: ${toJsonWords(message)}`).join("; ");
  if (result.error.issues.some(({ code }) => code === "unrecognized_keys")) {
    throw new SbxError("request.unknown_field", text);
  }
  const shapeless = result.error.issues.some(({ code, path }) =>
    code === "invalid_type" && path.length === 0
  );
  throw new SbxError(shapeless ? "request.malformed" : "request.invalid", text);
}

/** Longest name of a client that records keep, in characters (docs/design/contracts/05-policy.md §5). */
const CLIENT_MAX = 128;

/** The program behind a request, from its `User-Agent`; any client of this user can claim any. */
export function clientOf(context: Context): string {
  // deno-lint-ignore no-control-regex
  const name = (context.req.header("user-agent") ?? "").replace(/[\x00-\x1f\x7f-\x9f]/g, "");
  return name.slice(0, CLIENT_MAX) || "unknown";
}

/** The author of a change or an answer: the socket and the token of this service belong to its user. */
export function madeBy(context: Context): AnsweredBy {
  return { user: userName(), client: clientOf(context) };
}

/** A key by which a client sends a request again: visible ASCII, at most 64 characters. */
const KEY = /^[\x21-\x7e]{1,64}$/;

/** Key and hash of a request that may come twice. @throws {SbxError} `request.invalid` */
export async function askedBy(context: Context, body: unknown): Promise<Asked | undefined> {
  const key = context.req.header(IDEMPOTENCY_KEY);
  if (key === undefined) return undefined;
  if (!KEY.test(key)) {
    throw new SbxError("request.invalid", `${IDEMPOTENCY_KEY} must be 1 to 64 visible characters of ASCII`, {
      hint: "a UUID is a good key",
    });
  }
  const text = `${context.req.path}\n${canonicalJson(body)}`;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return { key, digest: new Uint8Array(hash).toHex() };
}

/**
 * Refuses a client of another version of the API; one without the header takes this.
 * @throws {SbxError} `api.version`
 */
export function requireApiVersion(context: Context): void {
  const asked = context.req.header(API_VERSION_HEADER);
  if (asked === undefined || asked === API_VERSION) return;
  throw new SbxError("api.version", `this sbx has version ${API_VERSION} of the API, not the requested one`, {
    hint: `use an SDK of sbx ${VERSION}, or update sbx`,
  });
}

/** Trace of a request's `traceparent`, which any client can claim. */
export function traceOf(context: Context): Trace {
  const trace_id = readTraceparent(context.req.header("traceparent"));
  return trace_id === undefined ? {} : { trace_id };
}
