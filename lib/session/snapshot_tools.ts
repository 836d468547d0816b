/**
 * Snapshots of its own workspace for a guest: tools of the built-in MCP server
 * (docs/design/contracts/08-mcp.md §8, "Built-in server"), which the guest's program `snapshots` calls too.
 * The guest cannot delete any, and its own push out none of the host's.
 */
import { SbxError } from "../base/error/mod.ts";
import { GUEST_WORKSPACE } from "../event/mod.ts";
import type { LocalTool } from "../mcp/endpoint/mod.ts";
import { PerMinute } from "../mcp/mod.ts";
import {
  CACHED_MS,
  eventOf,
  type SnapshotLimits,
  SnapshotStore,
  toText,
  viewOf,
} from "../machine/snapshot/mod.ts";
import type { HostFile } from "./file_event.ts";

export { SnapshotStore };

/** Calls per minute: writing calls, and all calls (docs/design/contracts/14-limits.md §14). */
const WRITES_PER_MINUTE = 10;
const CALLS_PER_MINUTE = 60;
/** Longest label, in characters; most paths of a restore; most changes in an answer. */
const LABEL_MAX = 128;
const PATHS_MAX = 1000;
const CHANGES_MAX = 1000;

/** Parts of a session that the tools need. */
export interface SnapshotToolParts {
  store: SnapshotStore;
  /** undefined: an older contract, which grants none */
  limits(): SnapshotLimits | undefined;
  /** records an event */
  observe(file: HostFile): void;
}

type Args = Record<string, unknown>;

const GUEST = { client: "guest" };
const ID = { type: "string", pattern: "^s[0-9a-f]{8}$", description: "id of a snapshot" };
const READ_ONLY = { readOnlyHint: true, openWorldHint: false };

export function snapshotTools({ store, limits, observe }: SnapshotToolParts): LocalTool[] {
  const calls = new PerMinute(CALLS_PER_MINUTE);
  const writes = new PerMinute(WRITES_PER_MINUTE);
  const limitsOfGuest = (): SnapshotLimits => {
    const granted = limits();
    if (granted) return granted;
    throw new SbxError("snapshot.not_granted", "snapshots come with the next start of this VM");
  };
  const make = (
    name: string,
    title: string,
    description: string,
    [properties, required, annotations]: [object, string[], object],
    run: (args: Args) => Promise<object>,
  ): LocalTool => ({
    entry: {
      namespaced_name: `local__snapshot_${name}`,
      title,
      description,
      input_schema: { type: "object", properties, required, additionalProperties: false },
      annotations,
    },
    run: async (args) => {
      count(calls, CALLS_PER_MINUTE);
      const answer = await run(args);
      return { content: [{ type: "text", text: JSON.stringify(answer) }], structuredContent: answer };
    },
  });
  return [
    make(
      "list",
      "List snapshots",
      "Lists the snapshots of /workspace, oldest first: automatic ones, and those made by this VM or its user.",
      [{}, [], READ_ONLY],
      async () => ({ snapshots: await store.list() }),
    ),
    make(
      "create",
      "Make a snapshot",
      "Keeps /workspace as it is, to go back to. Make one before work that may have to be undone.",
      [{ label: { type: "string", maxLength: LABEL_MAX } }, [], { openWorldHint: false }],
      async ({ label }) => {
        count(writes, WRITES_PER_MINUTE);
        const request = { kind: "manual" as const, label: labelOf(label), actor: "guest" as const };
        const made = await store.create({ ...request, limits: limitsOfGuest() });
        observe(eventOf(made!, GUEST));
        return made!;
      },
    ),
    make(
      "diff",
      "Compare snapshots",
      "Shows which files changed from a snapshot to another one, or to /workspace as it is.",
      [{ from: ID, to: ID }, ["from"], READ_ONLY],
      async ({ from, to }) =>
        viewsOf(await store.diff(textOf(from, "from"), to === undefined ? to : textOf(to, "to"))),
    ),
    make(
      "restore",
      "Restore a snapshot",
      "Puts /workspace, or some paths of it, back as a snapshot has them; files that came later are removed. The state before " +
        "becomes a snapshot (before), to go back to. failed names files that were not put back.",
      [
        {
          snapshot: ID,
          paths: { type: "array", items: { type: "string" }, minItems: 1, maxItems: PATHS_MAX },
        },
        ["snapshot"],
        { destructiveHint: true, openWorldHint: false },
      ],
      async ({ snapshot, paths }) => {
        count(writes, WRITES_PER_MINUTE);
        const id = textOf(snapshot, "snapshot");
        const restored = await store.restore(id, {
          kind: "auto",
          label: "before a restore",
          actor: "guest",
          limits: limitsOfGuest(),
          paths: pathsOf(paths),
        });
        const info = (await store.list()).find((each) => each.id === id);
        if (info) observe(eventOf(info, GUEST, restored));
        // Until then, the guest's kernel has cached old names.
        if (restored.changes.length > 0) await new Promise((resolve) => setTimeout(resolve, CACHED_MS));
        const failed = restored.failed.map(({ path, why }) => ({ path: toText(path), why }));
        return { before: restored.before, ...viewsOf(restored.changes), failed };
      },
    ),
  ];
}

/** @throws {SbxError} `snapshot.rate` */
function count(calls: PerMinute, max: number): void {
  if (!calls.take()) {
    throw new SbxError("snapshot.rate", `more than ${max} such calls in a minute: try again later`);
  }
}

function viewsOf(changes: Parameters<typeof viewOf>[0][]) {
  return { changes: changes.slice(0, CHANGES_MAX).map(viewOf), changes_count: changes.length };
}

function textOf(value: unknown, name: string): string {
  if (typeof value === "string") return value;
  throw invalid(`"${name}" must be a text`);
}

function labelOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const label = textOf(value, "label");
  if (label.length > 0 && label.length <= LABEL_MAX && /^\P{Cc}*$/u.test(label)) return label;
  throw invalid(`"label" must have 1 to ${LABEL_MAX} characters, and no control characters`);
}

function pathsOf(value: unknown): string[] | undefined {
  if (value === undefined) return undefined;
  if (!Array.isArray(value) || value.length === 0 || value.length > PATHS_MAX) {
    throw invalid(`"paths" must be a list of 1 to ${PATHS_MAX} paths`);
  }
  return value.map((path) => {
    const text = textOf(path, "paths");
    const inside = text === GUEST_WORKSPACE ? "" : text.replace(new RegExp(`^${GUEST_WORKSPACE}/`), "");
    const parts = inside.split("/").filter((part) => part !== "" && part !== ".");
    if (inside.startsWith("/") || parts.includes("..")) {
      throw invalid(`"${text}" is not below ${GUEST_WORKSPACE}`);
    }
    return parts.join("/");
  });
}

function invalid(problem: string): SbxError {
  return new SbxError("mcp.arguments.invalid", problem);
}
