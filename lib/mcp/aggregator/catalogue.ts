/** What one server offers, as the JSON in which it is listed: it is asked for far more often than it changes. */
import type { Kind } from "../entry.ts";
import { CATALOGUE_BYTES_MAX, DEPTH_MAX, ENTRY_BYTES_MAX } from "../limit.ts";
import { byteLength } from "../ndjson.ts";
import { foreignText } from "../text.ts";
import { isDeeper } from "./answer.ts";
import { isObject, READERS } from "./listing.ts";

/** An entry as JSON. */
export interface EntryText {
  text: string;
  /** as UTF-8 */
  bytes: number;
}

export class Catalogue {
  readonly #server: string;
  readonly #entries: Record<Kind, Map<string, EntryText>> = {
    tools: new Map(),
    resources: new Map(),
    prompts: new Map(),
  };

  constructor(server: string) {
    this.#server = server;
  }

  count(kind: Kind): number {
    return this.#entries[kind].size;
  }

  has(kind: Kind, key: string): boolean {
    return this.#entries[kind].has(key);
  }

  entries(kind: Kind): Iterable<EntryText> {
    return this.#entries[kind].values();
  }

  /** Puts what a server lists in place of what it listed before. @returns also what was left out, and why */
  replace(kind: Kind, listed: unknown[]): { changed: boolean; problems: string[] } {
    const entries = new Map<string, EntryText>();
    const problems: string[] = [];
    let total = 0;
    for (const raw of listed) {
      const read = isObject(raw) ? this.#read(kind, raw) : { problem: `one of its ${kind} is no object` };
      if ("problem" in read) problems.push(read.problem);
      // Two of the same name: nobody could tell which one is called.
      else if (entries.has(read.key)) {
        problems.push(`"${foreignText(read.key)}" of its ${kind} is there twice`);
      } else if (total + read.bytes > CATALOGUE_BYTES_MAX) {
        problems.push(`its ${kind} are over ${CATALOGUE_BYTES_MAX} bytes; the rest is left out`);
        break;
      } else {
        total += read.bytes;
        entries.set(read.key, { text: read.text, bytes: read.bytes });
      }
    }
    const changed = !sameEntries(this.#entries[kind], entries);
    this.#entries[kind] = entries;
    return { changed, problems };
  }

  #read(kind: Kind, raw: Record<string, unknown>): { key: string } & EntryText | { problem: string } {
    try {
      const read = READERS[kind](this.#server, raw);
      if ("problem" in read) return read;
      const text = JSON.stringify(read.entry);
      const bytes = byteLength(text);
      if (isDeeper(text, DEPTH_MAX)) {
        return { problem: `"${foreignText(read.key)}" of its ${kind} is nested too deep` };
      }
      if (bytes <= ENTRY_BYTES_MAX) return { key: read.key, text, bytes };
      return { problem: `"${foreignText(read.key)}" of its ${kind} is over ${ENTRY_BYTES_MAX} bytes` };
    } catch {
      // Nested deeper than the stack goes.
      return { problem: `one of its ${kind} cannot be written as JSON` };
    }
  }
}

function sameEntries(a: Map<string, EntryText>, b: Map<string, EntryText>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, { text }] of a) if (b.get(key)?.text !== text) return false;
  return true;
}
