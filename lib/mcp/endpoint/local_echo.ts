import { SbxError } from "../../base/error/mod.ts";
import type { ToolEntry } from "./catalogue.ts";

export const ECHO: ToolEntry = {
  namespaced_name: "local__echo",
  title: "Echo",
  description: "Answers with the text that it is given. Use it to find out whether MCP works in this VM.",
  input_schema: {
    type: "object",
    properties: { text: { type: "string", description: "what to answer with" } },
    required: ["text"],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
};

/** @throws SbxError `mcp.arguments.invalid` */
export function echo({ text }: Record<string, unknown>): unknown {
  if (typeof text !== "string") {
    throw new SbxError("mcp.arguments.invalid", 'echo needs "text", and that is text');
  }
  return { content: [{ type: "text", text }] };
}
