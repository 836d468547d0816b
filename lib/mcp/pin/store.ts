/** Which tools were approved as what, per profile (contracts.md §8, "Pin"). */
import { SbxError } from "../../base/error/mod.ts";
import type { ToolDefinition } from "../entry.ts";
import type { PinChange } from "./change.ts";
import { type Pin, type PinFile, readPins, updatePins } from "./file.ts";
import { pinHash } from "./hash.ts";
import { isRenamed } from "./similar.ts";

/** A tool as it was listed. */
export interface Listed {
  definition: ToolDefinition;
  /** its {@linkcode pinHash} */
  hash: string;
}

/** What a listing means. */
export interface PinCheck {
  /** names of the tools that are held back */
  held: Set<string>;
  /** changes that were not known before: each raises a finding */
  found: PinChange[];
}

/**
 * The pins of one profile, shared by every process that runs one. A tool is pinned when it is first seen; from then on
 * it is what it was, or it is held back until it is approved.
 */
export class PinStore {
  readonly #path: string;
  readonly #now: () => Date;

  /** @param path a JSON file of the profile's own; it need not exist */
  constructor(path: string, now: () => Date = () => new Date()) {
    this.#path = path;
    this.#now = now;
  }

  /**
   * Compares what a server lists with what was approved, and remembers what is new.
   *
   * @throws {SbxError} `mcp.pins.unreadable`, `mcp.pins.busy`
   */
  check(server: string, listed: Listed[]): Promise<PinCheck> {
    return updatePins(this.#path, (file) => {
      const before = JSON.stringify(file.changes.filter((change) => change.server === server));
      const { held, found, added } = this.#compare(file, server, listed);
      const after = JSON.stringify(file.changes.filter((change) => change.server === server));
      return { result: { held, found }, isNew: added || before !== after };
    });
  }

  /** What waits for approval. @throws {SbxError} `mcp.pins.unreadable` */
  async changes(): Promise<PinChange[]> {
    return (await readPins(this.#path)).changes;
  }

  /**
   * Approves a tool as it was seen last.
   *
   * @throws {SbxError} `mcp.pin.not_found` when nothing waits by this name
   */
  approve(server: string, tool: string): Promise<PinChange> {
    return updatePins(this.#path, (file) => {
      const at = file.changes.findIndex((change) => change.server === server && change.tool === tool);
      if (at < 0) {
        throw new SbxError("mcp.pin.not_found", `no change of ${server}__${tool} waits for approval`, {
          hint: "sbx mcp diff lists those that do",
        });
      }
      const [change] = file.changes.splice(at, 1);
      const pins = pinsOf(file, server);
      if (change.kind === "renamed") delete pins[change.before.name];
      pins[tool] = this.#pin(change.after, change.after_hash);
      return { result: change, isNew: true };
    });
  }

  #compare(file: PinFile, server: string, listed: Listed[]): PinCheck & { added: boolean } {
    const pins = pinsOf(file, server);
    const known = new Map(file.changes.filter((change) => change.server === server).map((c) => [c.tool, c]));
    const names = new Set(listed.map(({ definition }) => definition.name));
    const gone = Object.values(pins).filter(({ definition }) => !names.has(definition.name));
    const check: PinCheck & { added: boolean } = { held: new Set(), found: [], added: false };
    for (const { definition, hash } of listed) {
      const { name } = definition;
      const pin = Object.hasOwn(pins, name) ? pins[name] : undefined;
      const former = pin ?? gone.find((other) => isRenamed(other.definition, definition));
      if (pin?.hash === hash) known.delete(name);
      else if (former) {
        check.held.add(name);
        if (known.get(name)?.after_hash === hash) continue;
        const change = this.#change(server, former, definition, hash);
        known.set(name, change);
        check.found.push(change);
      } else {
        pins[name] = this.#pin(definition, hash);
        check.added = true;
      }
    }
    file.changes = [...file.changes.filter((change) => change.server !== server), ...known.values()];
    return check;
  }

  #change(server: string, { definition, hash }: Pin, after: ToolDefinition, after_hash: string): PinChange {
    return {
      server,
      tool: after.name,
      kind: definition.name === after.name ? "changed" : "renamed",
      before: definition,
      after,
      before_hash: hash,
      after_hash,
      seen_at: this.#now().toISOString(),
    };
  }

  #pin(definition: ToolDefinition, hash = pinHash(definition)): Pin {
    return { hash, definition, approved_at: this.#now().toISOString() };
  }
}

/** Names of tools are anybody's: no object with a prototype is asked for them. */
function pinsOf(file: PinFile, server: string): Record<string, Pin> {
  if (!Object.hasOwn(file.pins, server)) file.pins[server] = {};
  return file.pins[server] = Object.assign(Object.create(null), file.pins[server]);
}
