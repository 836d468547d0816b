/**
 * The tree of settings, and edits that wait for Save; a toggle is sent at once
 * (docs/design/contracts/03-settings.md §3, "PATCH /settings/edit").
 */
import { api, type Settings } from "../../api/routes.ts";
import { signal } from "@preact/signals";
import { ApiError } from "../../api/client.ts";
import { act, notice, settings } from "../../store/store.ts";
import { text } from "../../text/en.ts";

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

export const staged = signal<Record<string, Value>>({});
/** Why the last batch was refused, by setting. */
export const refused = signal<Record<string, string[]>>({});

/** The value that a control shows. */
export function shownValue(leaf: Leaf): Value {
  return staged.value[leaf.id] ?? leaf.effective_value;
}

export function stage(leaf: Leaf, value: Value): void {
  const { [leaf.id]: _, ...others } = staged.value;
  const { [leaf.id]: _corrected, ...stillRefused } = refused.value;
  refused.value = stillRefused;
  const isUnchanged = JSON.stringify(value) === JSON.stringify(leaf.effective_value);
  staged.value = isUnchanged ? others : { ...others, [leaf.id]: value };
}

/** Discards the pending changes and their errors. */
export function discard(): void {
  staged.value = refused.value = {};
  notice.value = undefined;
}

/** Sends the batch; a batch that is refused stays, with all its reasons. */
export async function save(): Promise<void> {
  if (await send(staged.value)) return void (staged.value = {});
  requestAnimationFrame(() => {
    const problem = document.querySelector(".problems");
    problem?.closest("details")?.setAttribute("open", "");
    problem?.scrollIntoView({ block: "center" });
  });
}

/** Sends one change at once; `null` removes the user's value. */
export async function sendNow(leaf: Leaf, value: Value | null): Promise<void> {
  if (!await send({ [leaf.id]: value })) settings.value = settings.value && { ...settings.value };
  const { [leaf.id]: _, ...others } = staged.value;
  staged.value = others;
}

/** A problem of a setting is shown beside its field; others, as with every action. */
async function send(changes: Record<string, Value | null>): Promise<boolean> {
  refused.value = {};
  return await act(async () => {
    try {
      settings.value = await api.editSettings(changes);
    } catch (error) {
      const problems = error instanceof ApiError
        ? problemsOf(error.message, Object.keys(changes))
        : undefined;
      if (problems === undefined) throw error;
      refused.value = problems;
      throw new Error(text.settings.refused(Object.keys(problems).length));
    }
  }, text.settings.saved);
}

/**
 * Problems by setting: an answer has a line `ID: PROBLEM` for each.
 *
 * @returns undefined: it says something else too
 */
export function problemsOf(message: string, ids: readonly string[]): Record<string, string[]> | undefined {
  const [head, ...lines] = message.split("\n");
  if (lines.length === 0 || !head.endsWith(":")) return undefined;
  const found: Record<string, string[]> = {};
  for (const line of lines) {
    const id = ids.find((each) => line.startsWith(`${each}: `));
    if (id === undefined) return undefined;
    (found[id] ??= []).push(line.slice(id.length + 2));
  }
  return found;
}
