import type { Settings } from "../../api/routes.ts";

export type Node = Settings["tree"][number];
export type Leaf = Extract<Node, { kind: "leaf" }>;
export type Group = Extract<Node, { kind: "group" }>;
export type Action = Extract<Node, { kind: "action" }>;
export type Value = Leaf["effective_value"];

export function* leavesOf(nodes: Node[]): Generator<Leaf> {
  for (const node of nodes) {
    if (node.kind === "leaf") yield node;
    else if (node.kind === "group") yield* leavesOf(node.children);
  }
}

/** The nodes in whose texts all words occur; a group that matches itself keeps all its children. */
export function search(nodes: Node[], words: string): Node[] {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const matches = (node: Node) => {
    const own = `${node.name} ${node.description ?? ""} ${node.kind === "leaf" ? node.id : node.key}`
      .toLowerCase();
    return wanted.every((word) => own.includes(word));
  };
  const keep = (node: Node): Node[] => {
    if (matches(node)) return [node];
    if (node.kind !== "group") return [];
    const children = node.children.flatMap(keep);
    return children.length > 0 ? [{ ...node, children, collapsed: false }] : [];
  };
  return wanted.length === 0 ? nodes : nodes.flatMap(keep);
}
