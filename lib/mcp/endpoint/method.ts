/** The methods that go through policy: what each asks for, as which event, and what the guest is shown. */
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

/** A request, ready to be decided on. */
export interface Prepared {
  draft: Draft;
  timeoutMs: number;
  effect: Effect;
}

/** What a method is prepared with. */
export interface Preparing {
  params: Params;
  catalogue: Catalogue;
  process: EventProcess;
  options: CallOptions;
  limits: EndpointLimits;
}

type Method = (preparing: Preparing) => Prepared;

/** By name; a Map, for names that objects have of themselves. @throws RpcError −32602 for bad params */
export const METHODS: ReadonlyMap<string, Method> = new Map<string, Method>([
  ["tools/call", callTool],
  ["resources/read", readResource],
  ["prompts/get", getPrompt],
  ["tools/list", list("tools", "tools", "name", toolOf, shownTools)],
  [
    "resources/list",
    list("resources", "resources", "uri", resourceOf, (from, way) => from.listResources(way)),
  ],
  [
    "resources/templates/list",
    list("resources/templates", "resourceTemplates", "uriTemplate", templateOf, templates),
  ],
  ["prompts/list", list("prompts", "prompts", "name", promptOf, (from, way) => from.listPrompts(way))],
]);

function callTool({ params, catalogue, process, options, limits }: Preparing): Prepared {
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

function readResource({ params, catalogue, process, options, limits }: Preparing): Prepared {
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

function getPrompt({ params, catalogue, process, options, limits }: Preparing): Prepared {
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
 * A list.
 *
 * @param method without `/list`
 * @param key under which MCP's result has the items
 * @param named member of an item by which it is recorded
 */
function list<T>(
  method: string,
  key: string,
  named: string,
  itemOf: (entry: T) => Params,
  entries: (catalogue: Catalogue, options: CallOptions) => Promise<T[]>,
): Method {
  const event = key === "tools" ? "mcp.tool_list" : "mcp.event";
  const names = (items: Params[]) => items.map((item) => String(item[named]));
  return ({ params: { cursor }, catalogue, process, options, limits }) => ({
    draft: draftOf(event, `${method}/list`, process),
    timeoutMs: limits.requestTimeoutMs,
    effect: async () => {
      const { items, omitted, nextCursor } = pageOf(await entries(catalogue, options), key, cursor, itemOf);
      const left = names(omitted).join(", ").slice(0, 1000);
      return {
        result: { [key]: items, ...(nextCursor && { nextCursor }) },
        response: listResponse(names(items)),
        ...(left && { error: `too large to be listed: ${left}` }),
      };
    },
  });
}

/** Without those that are held back: what nobody may call is not offered. */
async function shownTools(catalogue: Catalogue, options: CallOptions): Promise<ToolEntry[]> {
  return (await catalogue.listTools(options)).filter(({ pin_changed }) => pin_changed !== true);
}

async function templates(catalogue: Catalogue, options: CallOptions): Promise<ResourceTemplateEntry[]> {
  return await catalogue.listResourceTemplates?.(options) ?? [];
}

function toolOf(tool: ToolEntry): Params {
  const { namespaced_name, title, description, input_schema, output_schema, annotations } = tool;
  return defined({
    name: namespaced_name,
    title,
    description,
    inputSchema: input_schema,
    outputSchema: output_schema,
    annotations,
  });
}

function resourceOf({ namespaced_uri, name, description, mime_type }: ResourceEntry): Params {
  return defined({ uri: namespaced_uri, name, description, mimeType: mime_type });
}

function templateOf(template: ResourceTemplateEntry): Params {
  const { namespaced_uri_template, name, description, mime_type } = template;
  return defined({ uriTemplate: namespaced_uri_template, name, description, mimeType: mime_type });
}

function promptOf({ namespaced_name, description, arguments: args }: PromptEntry): Params {
  return defined({ name: namespaced_name, description, arguments: args });
}

/** Without the members that a server did not give, or gave as null. */
function defined(object: Params): Params {
  return Object.fromEntries(
    Object.entries(object).filter(([, value]) => value !== undefined && value !== null),
  );
}
