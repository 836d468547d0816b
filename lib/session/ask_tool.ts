/**
 * The asks of a VM for its own programs (docs/design/contracts/08-mcp.md §8, "Built-in server"):
 * its open questions, so that an agent neither asks twice nor takes a wait for a failure. The
 * guest's program sbx-ask calls it.
 */
import type { LocalTool } from "../mcp/endpoint/mod.ts";
import type { Ask } from "../policy/mod.ts";

/** The tool that lists the asks of a session. */
export function askTool({ asks }: { asks: { pending(): Ask[] } }): LocalTool {
  return {
    entry: {
      namespaced_name: "local__list_asks",
      title: "List open questions",
      description: "Lists what waits for the user of this VM to allow or deny it. Only the user can answer.",
      input_schema: { type: "object", properties: {}, additionalProperties: false },
      annotations: { readOnlyHint: true, openWorldHint: false },
    },
    run: () => {
      const listed = asks.pending().map((
        { ask_id, event_type, subject, rule_id, reason, why, expires_at },
      ) => ({
        ask_id,
        event_type,
        subject,
        rule_id,
        reason,
        ...(why !== undefined && { why }),
        expires_at,
      }));
      const answer = { asks: listed };
      return { content: [{ type: "text", text: JSON.stringify(answer) }], structuredContent: answer };
    },
  };
}
