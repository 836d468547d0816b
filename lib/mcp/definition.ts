/** Server definitions as the aggregator receives them (docs/design/contracts/08-mcp.md §8). */
import { z } from "zod";
import { McpServers } from "../config/profile/mcp/schema.ts";
import { SERVERS_MAX } from "./limit.ts";
import { serverNameProblem } from "./name.ts";
import { foreignText } from "./text.ts";

const { headers, auth, url } = McpServers.valueType.shape;

/** Uses the header and credential rules of a profile, so that a definition cannot contain a secret. */
export const AggregatorDefinition = z.strictObject({
  name: z.string().superRefine((name, { addIssue }) => {
    const problem = serverNameProblem(name);
    if (problem) addIssue({ code: "custom", message: problem });
  }),
  url: z.union([z.literal(""), url.unwrap()]).default("").describe("empty for stdio servers"),
  headers: headers.unwrap().nullish().transform((value) => value ?? {}),
  auth: auth.unwrap().nullish().transform((value) => value ?? undefined),
  enabled: z.boolean().default(true).describe("disabled servers are skipped"),
  source: z.string().max(64).default("").describe("origin: corp, profile"),
  unsupported_stdio: z.boolean().default(false).describe("stdio only; the aggregator skips it"),
  stdio: z.boolean().optional().describe(
    "its program runs in a VM of its own; the aggregator has its input and output",
  ),
}).superRefine((definition, { addIssue }) => {
  if (definition.url || definition.unsupported_stdio || definition.stdio) return;
  addIssue({ code: "custom", path: ["url"], message: "is missing" });
});
export type AggregatorDefinition = z.output<typeof AggregatorDefinition>;

/** Valid definitions, and one message for each invalid one. */
export interface DefinitionList {
  /** in input order; the first definition of a name wins */
  definitions: AggregatorDefinition[];
  problems: string[];
}

/**
 * Checks each definition on its own: an invalid one does not affect the others.
 *
 * @returns `undefined` when `value` is not an array
 */
export function readDefinitions(value: unknown): DefinitionList | undefined {
  if (!Array.isArray(value)) return undefined;
  const valid = new Map<string, AggregatorDefinition>();
  const problems: string[] = [];
  for (const [at, entry] of value.entries()) {
    const { success, data, error } = AggregatorDefinition.safeParse(entry);
    const name = typeof entry?.name === "string" ? `"${foreignText(entry.name, 64)}"` : `#${at + 1}`;
    if (!success) {
      const { path, message } = error.issues[0];
      problems.push(`server ${name} is invalid: ${[...path, foreignText(message)].join(" ")}`);
    } else if (valid.has(data.name)) {
      problems.push(`server ${name} is defined twice; the first definition is used`);
    } else if (valid.size >= SERVERS_MAX) {
      problems.push(`server ${name} exceeds the limit of ${SERVERS_MAX} servers`);
    } else valid.set(data.name, data);
  }
  return { definitions: [...valid.values()], problems };
}
