/** Methods subject to policy: the event, the request to the catalogue, and the result for the guest. */
import { isObject, objectOf } from "../../base/object/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type {
  CallOptions,
  Catalogue,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
} from "./catalogue.ts";
import {
  type Caller,
  type Content,
  draftOf,
  listResponse,
  namesOf,
  namesOfResource,
  responseOf,
} from "./event.ts";
import { type EndpointLimits, PAGE_BYTES, URI_MAX } from "./limit.ts";
import { type Effect, resultOf } from "./perform.ts";
import { argumentsParam, type Params, RPC, RpcError, textParam } from "./rpc.ts";

/** A request ready for a policy decision. */
export interface PreparedRequest {
  draft: Draft;
  timeoutMs: number;
  effect: Effect;
}

/** Input of a method. */
export interface MethodContext {
  params: Params;
  catalogue: Catalogue;
  caller: Caller;
  options: CallOptions;
  limits: EndpointLimits;
  subscriptions: OwnSubscriptions;
}

/** Subscriptions of the connection that a request came by. */
export interface OwnSubscriptions {
  add(uri: string): void;
  /** @returns whether no connection of the guest is subscribed any more */
  remove(uri: string): boolean;
}

/** Reads the params of a method, before policy decides. */
export type Method = (context: MethodContext) => PreparedRequest;

/**
 * Methods by name; a Map, because a method may be named like a member of every object.
 *
 * @throws RpcError −32602: invalid params
 */
export const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["tools/call", callTool],
  ["resources/read", readResource],
  ["prompts/get", getPrompt],
  ["completion/complete", complete],
  ["resources/subscribe", subscribe],
  ["resources/unsubscribe", unsubscribe],
  ["tools/list", list("tools", "tools", "name", toolOf, visibleTools)],
  [
    "resources/list",
    list(
      "resources",
      "resources",
      "uri",
      resourceOf,
      (catalogue, options) => catalogue.listResources(options),
    ),
  ],
  [
    "resources/templates/list",
    list("resources/templates", "resourceTemplates", "uriTemplate", templateOf, templates),
  ],
  [
    "prompts/list",
    list("prompts", "prompts", "name", promptOf, (catalogue, options) => catalogue.listPrompts(options)),
  ],
]);

function callTool({ params, catalogue, caller, options, limits }: MethodContext): PreparedRequest {
  const names = namesOf(textParam(params, "name"));
  return {
    draft: draftOf("mcp.tool_call", "tools/call", caller, names, argumentsParam(params)),
    timeoutMs: limits.callTimeoutMs,
    effect: async ({ namespaced_tool_name: name, arguments: args }) => {
      const result = resultOf(await catalogue.callTool(name, args, options), name);
      return { result, response: responseOf(result) };
    },
  };
}

function readResource({ params, catalogue, caller, options, limits }: MethodContext): PreparedRequest {
  const names = namesOfResource(textParam(params, "uri", URI_MAX));
  return {
    draft: draftOf("mcp.event", "resources/read", caller, names),
    timeoutMs: limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: uri }) => {
      const result = resultOf(await catalogue.readResource(uri, options), uri);
      return { result, response: responseOf(result) };
    },
  };
}

function getPrompt({ params, catalogue, caller, options, limits }: MethodContext): PreparedRequest {
  const names = namesOf(textParam(params, "name"));
  return {
    draft: draftOf("mcp.event", "prompts/get", caller, names, argumentsParam(params)),
    timeoutMs: limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: name, arguments: args }) => {
      const result = resultOf(await catalogue.getPrompt(name, args, options), name);
      return { result, response: responseOf(result) };
    },
  };
}

function complete({ params, catalogue, caller, options, limits }: MethodContext): PreparedRequest {
  const { ref, argument, context } = params;
  if (!isObject(ref) || !isObject(argument)) {
    throw new RpcError(RPC.params, "params.ref and params.argument must be objects");
  }
  const type = ref.type === "ref/resource" ? "ref/resource" : "ref/prompt";
  const names = type === "ref/resource"
    ? namesOfResource(textParam(ref, "uri", URI_MAX))
    : namesOf(textParam(ref, "name"));
  const args = argumentsParam({ arguments: { argument, ...(isObject(context) && { context }) } });
  return {
    draft: draftOf("mcp.event", "completion/complete", caller, names, args),
    timeoutMs: limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: name, arguments: { argument, context } }) => {
      if (!isObject(argument)) throw new RpcError(RPC.params, "params.argument must be an object");
      const { name: of, value } = argument;
      if (typeof of !== "string" || typeof value !== "string") {
        throw new RpcError(RPC.params, "params.argument must have the strings name and value");
      }
      const request = { ref: { type, name }, argument: { name: of, value } } as const;
      const result = resultOf(
        await catalogue.complete?.({ ...request, ...(isObject(context) && { context }) }, options) ??
          { completion: { values: [] } },
        name,
      );
      const completion = objectOf(result.completion);
      return { result: { completion }, response: { is_error: false, content: [completion as Content] } };
    },
  };
}

function subscribe(context: MethodContext): PreparedRequest {
  return subscription("resources/subscribe", context, async (uri, { catalogue, options, subscriptions }) => {
    if (!catalogue.subscribe) throw new RpcError(RPC.unknownMethod, "no server offers subscriptions");
    subscriptions.add(uri);
    try {
      await catalogue.subscribe(uri, options);
    } catch (error) {
      subscriptions.remove(uri);
      throw error;
    }
  });
}

function unsubscribe(context: MethodContext): PreparedRequest {
  return subscription(
    "resources/unsubscribe",
    context,
    async (uri, { catalogue, options, subscriptions }) => {
      if (subscriptions.remove(uri)) await catalogue.unsubscribe?.(uri, options);
    },
  );
}

function subscription(
  method: string,
  context: MethodContext,
  change: (uri: string, context: MethodContext) => Promise<void>,
): PreparedRequest {
  const names = namesOfResource(textParam(context.params, "uri", URI_MAX));
  return {
    draft: draftOf("mcp.event", method, context.caller, names),
    timeoutMs: context.limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: uri }) => {
      await change(uri, context);
      return { result: {}, response: { is_error: false, content: [] } };
    },
  };
}

/**
 * Makes the method of a list.
 *
 * @param method name without `/list`
 * @param key member of MCP's result that contains the items
 * @param label member of an item recorded in the event
 */
function list<T>(
  method: string,
  key: string,
  label: string,
  itemOf: (entry: T) => Params,
  entries: (catalogue: Catalogue, options: CallOptions) => Promise<T[]>,
): Method {
  const event = key === "tools" ? "mcp.tool_list" : "mcp.event";
  const names = (items: Params[]) => items.map((item) => String(item[label]));
  return ({ params: { cursor }, catalogue, caller, options, limits }) => ({
    draft: draftOf(event, `${method}/list`, caller),
    timeoutMs: limits.requestTimeoutMs,
    effect: async () => {
      const { items, omitted, nextCursor } = pageOf(await entries(catalogue, options), key, cursor, itemOf);
      const tooLarge = names(omitted).join(", ").slice(0, 1000);
      return {
        result: { [key]: items, ...(nextCursor && { nextCursor }) },
        response: listResponse(names(items)),
        ...(tooLarge && { error: `too large to list: ${tooLarge}` }),
      };
    },
  });
}

/** The visible tools; withheld ones cannot be called. */
async function visibleTools(catalogue: Catalogue, options: CallOptions): Promise<ToolEntry[]> {
  return (await catalogue.listTools(options)).filter(({ pin_changed }) => pin_changed !== true);
}

async function templates(catalogue: Catalogue, options: CallOptions): Promise<ResourceTemplateEntry[]> {
  return await catalogue.listResourceTemplates?.(options) ?? [];
}

function toolOf(tool: ToolEntry): Params {
  const { namespaced_name, title, description, input_schema, output_schema, annotations } = tool;
  return omitMissing({
    name: namespaced_name,
    title,
    description,
    inputSchema: input_schema,
    outputSchema: output_schema,
    annotations,
  });
}

function resourceOf({ namespaced_uri, name, description, mime_type }: ResourceEntry): Params {
  return omitMissing({ uri: namespaced_uri, name, description, mimeType: mime_type });
}

function templateOf(template: ResourceTemplateEntry): Params {
  const { namespaced_uri_template, name, description, mime_type } = template;
  return omitMissing({ uriTemplate: namespaced_uri_template, name, description, mimeType: mime_type });
}

function promptOf({ namespaced_name, description, arguments: args }: PromptEntry): Params {
  return omitMissing({ name: namespaced_name, description, arguments: args });
}

/** Removes members that are missing or null. */
function omitMissing(object: Params): Params {
  return Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== undefined && value !== null),
  );
}

// Pages of lists that fit a frame, with MCP cursors.

/** One page of a list. */
interface Page {
  items: Params[];
  nextCursor?: string;
  /** omitted items, too large for any page */
  omitted: Params[];
}

const encoder = new TextEncoder();
const scratch = new Uint8Array(PAGE_BYTES);

/**
 * Returns the page at `cursor`. A list that changes between two pages is announced,
 * and listed again from its start.
 *
 * @param kind list that the cursor has to belong to
 * @param itemOf converts an entry for the guest; called for entries of the page only
 * @throws RpcError −32602: invalid cursor
 */
function pageOf<T>(
  all: readonly T[],
  kind: string,
  cursor: unknown,
  itemOf: (entry: T) => Params,
): Page {
  const page: Page = { items: [], omitted: [] };
  let bytes = 0;
  for (let at = startOf(kind, cursor); at < all.length; at++) {
    const item = itemOf(all[at]);
    const size = measure(item) + 1;
    if (size > PAGE_BYTES) page.omitted.push(item);
    else if (bytes + size > PAGE_BYTES) return { ...page, nextCursor: btoa(`${kind}:${at}`) };
    else {
      page.items.push(item);
      bytes += size;
    }
  }
  return page;
}

function startOf(kind: string, cursor: unknown): number {
  if (cursor === undefined) return 0;
  const [, list, at] = typeof cursor === "string" ? /^(\w+):(\d{1,9})$/.exec(decode(cursor)) ?? [] : [];
  if (list === kind) return Number(at);
  throw new RpcError(RPC.params, "params.cursor was not issued by this list");
}

function decode(cursor: string): string {
  try {
    return cursor.length > 64 ? "" : atob(cursor);
  } catch {
    return "";
  }
}

/** Length of a value's JSON in `bytes`; infinite when it exceeds a page or is nested too deep for JSON. */
function measure(value: unknown): number {
  try {
    const text = JSON.stringify(value);
    const { read, written } = encoder.encodeInto(text, scratch);
    return read < text.length ? Infinity : written;
  } catch {
    return Infinity;
  }
}
