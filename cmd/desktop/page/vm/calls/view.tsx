import { useSignal } from "@preact/signals";
import type { VmSummary } from "../../../api/routes.ts";
import { text } from "../../../text/en.ts";
import { FamilyView } from "../timeline/family.tsx";
import { Costs } from "./costs.tsx";
import { McpCall } from "./mcp.tsx";
import { ModelCall } from "./model.tsx";

const KINDS = ["model", "mcp"] as const;

/** Calls of models and of MCP tools, with what they cost. */
export function CallsView({ vm }: { vm: VmSummary }) {
  const kind = useSignal<typeof KINDS[number]>("model");
  const words = text.calls;
  return (
    <>
      <Costs vm={vm} />
      <div class="filters" role="group" aria-label={words.kind}>
        {KINDS.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === kind.value}
            onClick={() => kind.value = each}
          >
            {words.kinds[each]}
          </button>
        ))}
      </div>
      <FamilyView
        key={kind.value}
        vm={vm}
        family={kind.value}
        draw={({ model, mcp }) => model ? <ModelCall model={model} /> : mcp && <McpCall mcp={mcp} />}
      />
    </>
  );
}
