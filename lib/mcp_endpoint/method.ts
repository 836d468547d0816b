/** The methods that go through policy: what each asks for, as which event, and what the guest is shown. */
import type { EventProcess } from "../event/mod.ts";
import type { Draft } from "../policy/mod.ts";
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
  [
    "tools/list",
    list("tools", "tools", async (catalogue, options) => {
      const tools = await catalogue.listTools(options);
      return tools.filter(({ pin_changed }) => pin_changed !== true).map(toolOf);
    }, "name"),
  ],
  [
    "resources/list",
    list(
      "resources",
      "resources",
      async (catalogue, options) => (await catalogue.listResources(options)).map(resourceOf),
      "uri",
    ),
  ],
  [
    "resources/templates/list",
    list(
      "resources/templates",
      "resourceTemplates",
      async (catalogue, options) => (await catalogue.listResourceTemplates?.(options) ?? []).map(templateOf),
      "uriTemplate",
    ),
  ],
  [
    "prompts/list",
    list(
      "prompts",
      "prompts",
      async (catalogue, options) => (await catalogue.listPrompts(options)).map(promptOf),
      "name",
    ),
  ],
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
function list(
  method: string,
  key: string,
  items: (catalogue: Catalogue, options: CallOptions) => Promise<Params[]>,
  named: string,
): Method {
  const event = key === "tools" ? "mcp.tool_list" : "mcp.event";
  return ({ params: { cursor }, catalogue, process, options, limits }) => ({
    draft: draftOf(event, `${method}/list`, process),
    timeoutMs: limits.requestTimeoutMs,
    effect: async () => {
      const page = pageOf(await items(catalogue, options), key, cursor);
      const names = (some: Params[]) => some.map((item) => String(item[named]));
      const left = names(page.omitted);
      return {
        result: { [key]: page.items, ...(page.nextCursor && { nextCursor: page.nextCursor }) },
        response: listResponse(names(page.items)),
        ...(left.length > 0 && { error: `too large to be listed: ${left.join(", ").slice(0, 1000)}` }),
      };
    },
  });
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
