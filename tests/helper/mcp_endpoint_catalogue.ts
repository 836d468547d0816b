/** A catalogue of one real MCP server, behind the SDK's own client in the same process. */
// @ts-types="@modelcontextprotocol/sdk/client/index"
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
// @ts-types="@modelcontextprotocol/sdk/inMemory"
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
// @ts-types="@modelcontextprotocol/sdk/server/mcp"
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
// @ts-types="@modelcontextprotocol/sdk/types"
import {
  CallToolResultSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { SbxError } from "../../lib/base/error/mod.ts";
import type {
  CallOptions,
  Catalogue,
  CompletionRequest,
  EntryKind,
  RequestAnswerer,
  ServerNotice,
  ServerRequest,
} from "../../lib/mcp/endpoint/mod.ts";

export class SdkCatalogue implements Catalogue {
  readonly client = new Client({ name: "catalogue", version: "1.0.0" }, {
    capabilities: { elicitation: {}, sampling: {} },
  });
  readonly #watchers = new Set<(list: EntryKind) => void>();

  /** @param prefix of names, `everything`; none: names are the server's own */
  private constructor(readonly prefix: string | undefined) {
    for (
      const [schema, list] of [
        [ToolListChangedNotificationSchema, "tools"],
        [ResourceListChangedNotificationSchema, "resources"],
        [PromptListChangedNotificationSchema, "prompts"],
      ] as const
    ) {
      this.client.setNotificationHandler(schema, () => {
        for (const changed of this.#watchers) changed(list);
      });
    }
  }

  complete({ ref: { type, name }, argument, context }: CompletionRequest, { signal }: CallOptions) {
    const ref = type === "ref/prompt"
      ? { type, name: this.#own(name, `${this.prefix}__`, "prompt") }
      : { type, uri: this.#own(name, `sbx://${this.prefix}/`, "resource") };
    return this.client.complete({ ref, argument, ...(context && { context }) }, { signal });
  }

  async subscribe(uri: string, { signal }: CallOptions) {
    await this.client.subscribeResource({ uri: this.#own(uri, `sbx://${this.prefix}/`, "resource") }, {
      signal,
    });
  }

  async unsubscribe(uri: string, { signal }: CallOptions) {
    await this.client.unsubscribeResource({ uri: this.#own(uri, `sbx://${this.prefix}/`, "resource") }, {
      signal,
    });
  }

  watchNotices(noticed: (notice: ServerNotice) => void): () => void {
    const server = this.prefix ?? "";
    this.client.setNotificationHandler(LoggingMessageNotificationSchema, ({ method, params }) => {
      noticed({ server, method, params });
    });
    this.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ method, params: { uri } }) => {
      noticed({ server, method, params: { uri: this.#uri(uri) } });
    });
    return () => {};
  }

  answerRequests(answerer: RequestAnswerer): () => void {
    this.client.fallbackRequestHandler = ({ method, params = {} }, { signal }) => {
      return answerer(
        { server: this.prefix ?? "", method: method as ServerRequest["method"], params },
        signal,
      );
    };
    return () => {};
  }

  static async of(server: Pick<McpServer, "connect">, prefix?: string): Promise<SdkCatalogue> {
    const [near, far] = InMemoryTransport.createLinkedPair();
    const catalogue = new SdkCatalogue(prefix);
    await Promise.all([server.connect(far), catalogue.client.connect(near)]);
    return catalogue;
  }

  async listTools({ signal }: CallOptions) {
    const { tools } = await this.client.listTools({}, { signal });
    return tools.map(({ name, inputSchema, outputSchema, ...rest }) => ({
      ...rest,
      namespaced_name: this.#name(name),
      input_schema: inputSchema,
      output_schema: outputSchema,
    }));
  }

  async listResources({ signal }: CallOptions) {
    const { resources } = await this.client.listResources({}, { signal });
    return resources.map(({ uri, name, description, mimeType }) => ({
      namespaced_uri: this.#uri(uri),
      name,
      description,
      mime_type: mimeType,
    }));
  }

  async listResourceTemplates({ signal }: CallOptions) {
    const { resourceTemplates } = await this.client.listResourceTemplates({}, { signal });
    return resourceTemplates.map(({ uriTemplate, name, description, mimeType }) => ({
      namespaced_uri_template: this.#uri(uriTemplate),
      name,
      description,
      mime_type: mimeType,
    }));
  }

  async listPrompts({ signal }: CallOptions) {
    const { prompts } = await this.client.listPrompts({}, { signal });
    return prompts.map(({ name, description, arguments: args }) => ({
      namespaced_name: this.#name(name),
      description,
      arguments: args,
    }));
  }

  callTool(name: string, args: Record<string, unknown>, { signal, progress }: CallOptions) {
    const own = this.#own(name, `${this.prefix}__`, "tool");
    return this.client.callTool({ name: own, arguments: args }, CallToolResultSchema, {
      signal,
      onprogress: progress,
    });
  }

  readResource(uri: string, { signal }: CallOptions) {
    return this.client.readResource({ uri: this.#own(uri, `sbx://${this.prefix}/`, "resource") }, { signal });
  }

  getPrompt(name: string, args: Record<string, unknown>, { signal }: CallOptions) {
    const own = this.#own(name, `${this.prefix}__`, "prompt");
    return this.client.getPrompt({ name: own, arguments: args as Record<string, string> }, { signal });
  }

  watch(changed: (list: EntryKind) => void): () => void {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  #name(own: string): string {
    return this.prefix === undefined ? own : `${this.prefix}__${own}`;
  }

  #uri(own: string): string {
    return this.prefix === undefined ? own : `sbx://${this.prefix}/${own}`;
  }

  #own(name: string, prefix: string, kind: string): string {
    if (this.prefix === undefined) return name;
    if (name.startsWith(prefix)) return name.slice(prefix.length);
    throw new SbxError(`mcp.${kind}.not_found`, `no MCP server has a ${kind} "${name}"`);
  }
}

/** A catalogue without servers. */
export const EMPTY_CATALOGUE: Catalogue = {
  listTools: () => Promise.resolve([]),
  listResources: () => Promise.resolve([]),
  listPrompts: () => Promise.resolve([]),
  callTool: (name) => Promise.reject(new SbxError("mcp.tool.not_found", `no tool ${name}`)),
  readResource: (uri) => Promise.reject(new SbxError("mcp.resource.not_found", `no resource ${uri}`)),
  getPrompt: (name) => Promise.reject(new SbxError("mcp.prompt.not_found", `no prompt ${name}`)),
};
