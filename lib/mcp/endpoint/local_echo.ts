import { SbxError } from "../../base/error/mod.ts";
import type { ToolEntry } from "./catalogue.ts";

export const ECHO: ToolEntry = {
  namespaced_name: "local__echo",
  title: "Echo",
  description: "Returns the given text. Use it to check whether MCP works in this VM.",
  input_schema: {
    type: "object",
    properties: { text: { type: "string", description: "text to return" } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/** @throws {SbxError} `mcp.arguments.invalid` */
export function echo({ text }: Record<string, unknown>): unknown {
  if (typeof text !== "string") {
    throw new SbxError("mcp.arguments.invalid", 'echo: "text" must be a string');
  }
  return { content: [{ type: "text", text }] };
}
