import { type Json, listOf, objectOf, textOf } from "./json.ts";

/** Tools that a request offers to its model: in its body, among the input of OpenAI's Responses API, and in namespaces. */
export function toolsOf(body: Json): Json[] {
  const added = listOf(body.input).map(objectOf).filter(({ type }) => type === "additional_tools");
  return [body, ...added].flatMap(({ tools }) => listOf(tools)).map(objectOf).flatMap(withMembers);
}

function withMembers(tool: Json): Json[] {
  return textOf(tool.type) === "namespace" ? [tool, ...listOf(tool.tools).map(objectOf)] : [tool];
}

/** How many of them a model can call. */
export function countTools(body: Json): number {
  return toolsOf(body).filter(({ type }) => type !== "namespace").length;
}
