/** Methods subject to policy: the event, the request to the catalogue, and the result for the guest. */
import type { EventProcess } from "../../event/mod.ts";
import type { Draft } from "../../policy/mod.ts";
import type {
  CallOptions,
  Catalogue,
  PromptEntry,
  ResourceEntry,
  ResourceTemplateEntry,
  ToolEntry,
} from "./catalogue.ts";
import { draftOf, listResponse, responseOf } from "./event.ts";
import { type EndpointLimits, URI_MAX } from "./limit.ts";
import { namesOf, namesOfResource } from "./name.ts";
import { pageOf } from "./page.ts";
import { argumentsParam, textParam } from "./params.ts";
import { type Effect, resultOf } from "./perform.ts";
import type { Params } from "./rpc.ts";

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
  process: EventProcess | undefined;
  options: CallOptions;
  limits: EndpointLimits;
}

type Method = (context: MethodContext) => PreparedRequest;

/**
 * Methods by name; a Map, because a method may be named like a member of every object.
 *
 * @throws RpcError −32602: invalid params
 */
export const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["tools/call", callTool],
  ["resources/read", readResource],
  ["prompts/get", getPrompt],
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

function callTool({ params, catalogue, process, options, limits }: MethodContext): PreparedRequest {
  const names = namesOf(textParam(params, "name"));
  return {
    draft: draftOf("mcp.tool_call", "tools/call", process, names, argumentsParam(params)),
    timeoutMs: limits.callTimeoutMs,
    effect: async ({ namespaced_tool_name: name, arguments: args }) => {
      const result = resultOf(await catalogue.callTool(name, args, options), name);
      return { result, response: responseOf(result) };
    },
  };
}

function readResource({ params, catalogue, process, options, limits }: MethodContext): PreparedRequest {
  const names = namesOfResource(textParam(params, "uri", URI_MAX));
  return {
    draft: draftOf("mcp.event", "resources/read", process, names),
    timeoutMs: limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: uri }) => {
      const result = resultOf(await catalogue.readResource(uri, options), uri);
      return { result, response: responseOf(result) };
    },
  };
}

function getPrompt({ params, catalogue, process, options, limits }: MethodContext): PreparedRequest {
  const names = namesOf(textParam(params, "name"));
  return {
    draft: draftOf("mcp.event", "prompts/get", process, names, argumentsParam(params)),
    timeoutMs: limits.requestTimeoutMs,
    effect: async ({ namespaced_tool_name: name, arguments: args }) => {
      const result = resultOf(await catalogue.getPrompt(name, args, options), name);
      return { result, response: responseOf(result) };
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
  return ({ params: { cursor }, catalogue, process, options, limits }) => ({
    draft: draftOf(event, `${method}/list`, process),
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

/** Tools without those that are held back, which cannot be called. */
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
