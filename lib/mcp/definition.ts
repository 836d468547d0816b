/** Reading server definitions (spec.md, "Aggregator server definition"). */
import { z } from "zod";
import { McpServers } from "../profile/mcp.ts";
import { SERVERS_MAX } from "./limit.ts";
import { serverNameProblem } from "./name.ts";
import { foreignText } from "./text.ts";

const { headers, auth, url } = McpServers.valueType.shape;

/** Its header and credential rules are those of a profile: no secret can be written into it. */
export const AggregatorDefinition = z.strictObject({
  name: z.string().superRefine((name, { addIssue }) => {
    const problem = serverNameProblem(name);
    if (problem) addIssue({ code: "custom", message: problem });
  }),
  url: z.union([z.literal(""), url.unwrap()]).default(""),
  headers: headers.unwrap().nullish().transform((value) => value ?? {}),
  auth: auth.unwrap().nullish().transform((value) => value ?? undefined),
  enabled: z.boolean().default(true),
  source: z.string().max(64).default(""),
  unsupported_stdio: z.boolean().default(false),
}).superRefine((definition, { addIssue }) => {
  if (definition.url || definition.unsupported_stdio) return;
  addIssue({ code: "custom", path: ["url"], message: "is missing" });
});
export type AggregatorDefinition = z.output<typeof AggregatorDefinition>;

/** What was read, and what was not, with the reason. */
export interface ReadDefinitions {
  /** in the order given: the first of a name wins */
  definitions: AggregatorDefinition[];
  problems: string[];
}

/** Checks an array of definitions one by one: a bad one takes no other with it. Undefined when it is no array. */
export function readDefinitions(value: unknown): ReadDefinitions | undefined {
  if (!Array.isArray(value)) return undefined;
  const read = new Map<string, AggregatorDefinition>();
  const problems: string[] = [];
  for (const [at, entry] of value.entries()) {
    const { success, data, error } = AggregatorDefinition.safeParse(entry);
    const name = typeof entry?.name === "string" ? `"${foreignText(entry.name, 64)}"` : `number ${at + 1}`;
    if (!success) {
      const { path, message } = error.issues[0];
      problems.push(`server ${name} is refused: ${[...path, foreignText(message)].join(" ")}`);
    } else if (read.has(data.name)) problems.push(`server ${name} is defined twice; the first one counts`);
    else if (read.size >= SERVERS_MAX) problems.push(`server ${name} is over the limit of ${SERVERS_MAX}`);
    else read.set(data.name, data);
  }
  return { definitions: [...read.values()], problems };
}
