/**
 * The MCP server required by the conformance suite: tools, resources and prompts with the names and
 * results that its scenarios describe.
 */
// @ts-types="@modelcontextprotocol/sdk/server/index"
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
// @ts-types="@modelcontextprotocol/sdk/shared/protocol"
import type { RequestHandlerExtra } from "@modelcontextprotocol/sdk/shared/protocol.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  CallToolRequestSchema,
  type CallToolResult,
  CompleteRequestSchema,
  GetPromptRequestSchema,
  type GetPromptResult,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  McpError,
  ReadResourceRequestSchema,
  type ReadResourceResult,
  type ServerNotification,
  type ServerRequest,
  SubscribeRequestSchema,
  UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import type { Parsed } from "../helper/json.ts";

type Extra = RequestHandlerExtra<ServerRequest, ServerNotification>;

/** One red pixel. */
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/** A WAV file without samples. */
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

const text = (value: string) => ({ type: "text", text: value });
const image = { type: "image", data: PNG, mimeType: "image/png" };
const resource = (uri: string, value: string, mimeType = "text/plain") => ({
  type: "resource",
  resource: { uri, mimeType, text: value },
});
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

const OPTIONS = ["option1", "option2", "option3"];
const TITLED = [{ const: "value1", title: "First Option" }, { const: "value2", title: "Second Option" }];

/** Asks for a form with these fields. */
async function elicit({ sendRequest }: Extra, properties: object): Promise<unknown[]> {
  const { z } = await import("zod");
  const params = { message: "fill in", requestedSchema: { type: "object", properties, required: [] } };
  const { action, content } = await sendRequest(
    { method: "elicitation/create", params } as ServerRequest,
    z.looseObject({}),
  );
  return [text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`)];
}

type Run = (args: Parsed, extra: Extra) => unknown;

const TOOLS: Record<string, { schema?: object; run: Run }> = {
  test_simple_text: { run: () => [text("This is a simple text response for testing.")] },
  test_image_content: { run: () => [image] },
  test_audio_content: { run: () => [{ type: "audio", data: WAV, mimeType: "audio/wav" }] },
  test_embedded_resource: {
    run: () => [resource("test://embedded-resource", "This is an embedded resource content.")],
  },
  test_multiple_content_types: {
    run: () => [
      text("Multiple content types test:"),
      image,
      resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
  },
  test_error_handling: {
    run: () => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  },
  test_tool_with_progress: {
    async run(_, { _meta, sendNotification }) {
      for (const progress of [0, 50, 100]) {
        const params = { progressToken: _meta?.progressToken, progress, total: 100 };
        if (_meta?.progressToken !== undefined) {
          await sendNotification({ method: "notifications/progress", params } as ServerNotification);
        }
        await pause();
      }
      return [text("done")];
    },
  },
  test_tool_with_logging: {
    async run(_, { sendNotification }) {
      for (const data of ["Tool execution started", "Tool processing data", "Tool execution completed"]) {
        await sendNotification({ method: "notifications/message", params: { level: "info", data } });
        await pause();
      }
      return [text("done")];
    },
  },
  test_sampling: {
    schema: { type: "object", properties: { prompt: { type: "string" } }, required: ["prompt"] },
    async run({ prompt }, { sendRequest }) {
      const { z } = await import("zod");
      const params = { messages: [{ role: "user", content: text(prompt) }], maxTokens: 100 };
      const answer = await sendRequest(
        { method: "sampling/createMessage", params } as ServerRequest,
        z.looseObject({}),
      );
      return [text(`LLM response: ${JSON.stringify(answer)}`)];
    },
  },
  test_elicitation: {
    schema: { type: "object", properties: { message: { type: "string" } }, required: ["message"] },
    async run({ message }, { sendRequest }) {
      const { z } = await import("zod");
      const requestedSchema = { type: "object", properties: { username: { type: "string" } } };
      const params = { message, requestedSchema };
      const answer = await sendRequest(
        { method: "elicitation/create", params } as ServerRequest,
        z.looseObject({}),
      );
      return [text(`User response: ${JSON.stringify(answer)}`)];
    },
  },
  test_elicitation_sep1034_defaults: {
    run: (_, extra) =>
      elicit(extra, {
        name: { type: "string", default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      }),
  },
  test_elicitation_sep1330_enums: {
    run: (_, extra) =>
      elicit(extra, {
        untitledSingle: { type: "string", enum: OPTIONS },
        titledSingle: { type: "string", oneOf: TITLED },
        legacyEnum: { type: "string", enum: ["opt1", "opt2"], enumNames: ["Option One", "Option Two"] },
        untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
        titledMulti: { type: "array", items: { anyOf: TITLED } },
      }),
  },
  json_schema_2020_12_tool: {
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: {
        address: { type: "object", properties: { street: { type: "string" }, city: { type: "string" } } },
      },
      properties: { name: { type: "string" }, address: { $ref: "#/$defs/address" } },
      additionalProperties: false,
    },
    run: () => [text("ok")],
  },
};

const RESOURCES: Record<string, object> = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PNG },
};
const TEMPLATE = "test://template/{id}/data";

const PROMPTS: Record<string, { names: string[]; content(args: Record<string, string>): unknown[] }> = {
  test_simple_prompt: { names: [], content: () => [text("This is a simple prompt for testing.")] },
  test_prompt_with_arguments: {
    names: ["arg1", "arg2"],
    content: ({ arg1, arg2 }) => [text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)],
  },
  test_prompt_with_embedded_resource: {
    names: ["resourceUri"],
    content: ({ resourceUri }) => [
      resource(resourceUri, "Embedded resource content for testing."),
      text("Please process the embedded resource above."),
    ],
  },
  test_prompt_with_image: { names: [], content: () => [image, text("Please analyze the image above.")] },
};

export function fixtureServer(): Server {
  const capabilities = {
    tools: {},
    resources: { subscribe: true },
    prompts: {},
    logging: {},
    completions: {},
  };
  const server = new Server({ name: "fixture", version: "1.0.0" }, { capabilities });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(TOOLS).map(([name, { schema }]) => ({
      name,
      description: `the tool ${name}`,
      inputSchema: (schema ?? { type: "object" }) as { type: "object" },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, extra) => {
    const tool = TOOLS[params.name];
    if (!tool) throw new McpError(-32602, `unknown tool ${params.name}`);
    try {
      return { content: await tool.run(params.arguments ?? {}, extra) } as CallToolResult;
    } catch (error) {
      return { isError: true, content: [text((error as Error).message)] };
    }
  });
  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: Object.keys(RESOURCES).map((uri) => ({ uri, name: uri, description: uri })),
  }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: [{ uriTemplate: TEMPLATE, name: "template" }],
  }));
  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => {
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    const found = id === undefined
      ? RESOURCES[uri]
      : { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true }) };
    if (!found) throw new McpError(-32002, `no resource ${uri}`);
    return { contents: [{ uri, ...found }] } as ReadResourceResult;
  });
  server.setRequestHandler(SubscribeRequestSchema, () => ({}));
  server.setRequestHandler(UnsubscribeRequestSchema, () => ({}));
  server.setRequestHandler(CompleteRequestSchema, ({ params: { argument: { value } } }) => ({
    completion: {
      values: ["paris", "park", "party"].filter((word) => word.startsWith(value)),
      hasMore: false,
    },
  }));
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: Object.entries(PROMPTS).map(([name, { names }]) => ({
      name,
      description: `the prompt ${name}`,
      arguments: names.map((argument) => ({ name: argument, required: true })),
    })),
  }));
  server.setRequestHandler(GetPromptRequestSchema, ({ params }) => {
    const prompt = PROMPTS[params.name];
    if (!prompt) throw new McpError(-32602, `unknown prompt ${params.name}`);
    return {
      messages: prompt.content(params.arguments ?? {}).map((content) => ({ role: "user", content })),
    } as GetPromptResult;
  });
  return server;
}
