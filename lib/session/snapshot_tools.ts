/**
 * Tools with which a guest makes, compares and restores snapshots of its workspace, in the built-in MCP
 * server (docs/design/contracts/08-mcp.md §8, "Built-in server"); the guest's program `snapshots` calls them
 * too. A guest cannot delete snapshots, and its own never displace the host's.
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

/** Calls per minute that write (docs/design/contracts/14-limits.md §14). */
const WRITES_PER_MINUTE = 10;
/** Calls per minute in all. */
const CALLS_PER_MINUTE = 60;
/** Longest label, in characters. */
const LABEL_MAX = 128;
/** Most paths of a restore. */
const PATHS_MAX = 1000;
/** Most changes in an answer. */
const CHANGES_MAX = 1000;

/** Parts of a session that the tools need. */
export interface SnapshotToolParts {
  store: SnapshotStore;
  /** `undefined` for an older contract, which grants no snapshots */
  limits(): SnapshotLimits | undefined;
  /** records an event */
  observe(file: HostFile): void;
}

type Args = Record<string, unknown>;

/** A tool of this server, without the parts that all of them share. */
interface SnapshotTool {
  /** after `local__snapshot_` */
  name: string;
  title: string;
  description: string;
  /** JSON schemas of the arguments */
  properties: Record<string, object>;
  required?: string[];
  annotations: object;
  run(args: Args): Promise<object>;
}

const GUEST = { client: "guest" };
const ID = { type: "string", pattern: "^s[0-9a-f]{8}$", description: "id of a snapshot" };
const READ_ONLY = { readOnlyHint: true, openWorldHint: false };

/** The tools of one session; they share its limits of calls. */
export function snapshotTools({ store, limits, observe }: SnapshotToolParts): LocalTool[] {
  const calls = new PerMinute(CALLS_PER_MINUTE);
  const writes = new PerMinute(WRITES_PER_MINUTE);
  const limitsOfGuest = (): SnapshotLimits => {
    const granted = limits();
    if (granted) return granted;
    throw new SbxError("snapshot.not_granted", "snapshots come with the next start of this VM");
  };
  const make = (
    { name, title, description, properties, required = [], annotations, run }: SnapshotTool,
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
    make({
      name: "list",
      title: "List snapshots",
      description:
        "Lists the snapshots of /workspace, oldest first: automatic ones, and those made by this VM or its user.",
      properties: {},
      annotations: READ_ONLY,
      run: async () => ({ snapshots: await store.list() }),
    }),
    make({
      name: "create",
      title: "Make a snapshot",
      description:
        "Keeps /workspace as it is, to go back to. Make one before work that may have to be undone.",
      properties: { label: { type: "string", maxLength: LABEL_MAX } },
      annotations: { openWorldHint: false },
      run: async ({ label }) => {
        count(writes, WRITES_PER_MINUTE);
        const request = { kind: "manual" as const, label: labelOf(label), actor: "guest" as const };
        const made = await store.create({ ...request, limits: limitsOfGuest() });
        observe(eventOf(made!, GUEST));
        return made!;
      },
    }),
    make({
      name: "diff",
      title: "Compare snapshots",
      description: "Shows which files changed from a snapshot to another one, or to /workspace as it is.",
      properties: { from: ID, to: ID },
      required: ["from"],
      annotations: READ_ONLY,
      run: async ({ from, to }) =>
        viewsOf(await store.diff(textOf(from, "from"), to === undefined ? to : textOf(to, "to"))),
    }),
    make({
      name: "restore",
      title: "Restore a snapshot",
      description:
        "Puts /workspace, or some paths of it, back as a snapshot has them; files that came later are removed. The state before " +
        "becomes a snapshot (before), to go back to. failed names files that were not put back.",
      properties: {
        snapshot: ID,
        paths: { type: "array", items: { type: "string" }, minItems: 1, maxItems: PATHS_MAX },
      },
      required: ["snapshot"],
      annotations: { destructiveHint: true, openWorldHint: false },
      run: async ({ snapshot, paths }) => {
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
        // The guest's kernel caches old names until then.
        if (restored.changes.length > 0) await new Promise((resolve) => setTimeout(resolve, CACHED_MS));
        const failed = restored.failed.map(({ path, why }) => ({ path: toText(path), why }));
        return { before: restored.before, ...viewsOf(restored.changes), failed };
      },
    }),
  ];
}

/** Counts a call. @throws {SbxError} `snapshot.rate` for one over the limit */
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

/** Paths below /workspace, relative to it. */
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
