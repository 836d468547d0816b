import { ActionRow } from "./action.tsx";
import { LeafRow } from "./leaf.tsx";
import type { Group, Node } from "./tree.ts";

/** Nodes by their kind. */
export function Nodes({ nodes, depth }: { nodes: Node[]; depth: number }) {
  return (
    <>
      {nodes.map((node) => {
        if (node.kind === "group") return <GroupBox key={`group ${node.key}`} group={node} depth={depth} />;
        if (node.kind === "leaf") return <LeafRow key={node.id} leaf={node} />;
        return <ActionRow key={`action ${node.key}`} action={node} />;
      })}
    </>
  );
}

function GroupBox({ group, depth }: { group: Group; depth: number }) {
  const Heading = depth <= 3 ? `h${depth}` as "h2" : "h4";
  return (
    <details class="group" open={!group.collapsed}>
      <summary>
        <Heading>{group.name}</Heading>
      </summary>
      {group.description && <p class="hint">{group.description}</p>}
      <Nodes nodes={group.children} depth={depth + 1} />
    </details>
  );
}
