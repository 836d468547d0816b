/** Model calls as budgets see them. */
import type { Draft } from "../../lib/policy/mod.ts";

/** Draft of a call that may use so many tokens. */
export function modelCall(
  { input = 2, output = 128_000, model = "m", text = "{}" }: {
    input?: number;
    output?: number;
    model?: string;
    text?: string;
  } = {},
): Draft {
  return {
    common: { event_type: "model.call", source_engine: "model" },
    model: {
      request: {
        provider: "p",
        api_family: "f",
        model,
        stream: false,
        operation: "o",
        messages_count: 1,
        tools_count: 0,
        body: { state: "text", text, size: text.length, truncated: false },
      },
    },
    bill: { parts: [{ model, input, output }], textual: true },
  };
}
