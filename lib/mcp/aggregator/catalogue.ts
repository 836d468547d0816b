/** Entries of one server, stored as JSON: they are listed far more often than they change. */
import { isObject } from "../../base/object/mod.ts";
import { isDeeper } from "../../base/json/mod.ts";
import type { ListKind } from "../entry.ts";
import { CATALOGUE_BYTES_MAX, DEPTH_MAX, ENTRY_BYTES_MAX } from "../limit.ts";
import { byteLength } from "../ndjson.ts";
import { foreignText } from "../text.ts";
import { READERS } from "./listing.ts";

/** An entry as JSON. */
export interface EntryText {
  text: string;
  /** UTF-8 length in `bytes` */
  bytes: number;
}

export class ServerCatalogue {
  readonly #server: string;
  readonly #entries: Record<ListKind, Map<string, EntryText>> = {
    tools: new Map(),
    resources: new Map(),
    templates: new Map(),
    prompts: new Map(),
  };

  constructor(server: string) {
    this.#server = server;
  }

  count(kind: ListKind): number {
    return this.#entries[kind].size;
  }

  has(kind: ListKind, key: string): boolean {
    return this.#entries[kind].has(key);
  }

  entries(kind: ListKind): Iterable<EntryText> {
    return this.#entries[kind].values();
  }

  /** Replaces the entries of one kind. @returns also one message for each entry that is omitted */
  replace(kind: ListKind, listed: unknown[]): { changed: boolean; problems: string[] } {
    const entries = new Map<string, EntryText>();
    const problems: string[] = [];
    let total = 0;
    for (const raw of listed) {
      const read = isObject(raw) ? this.#read(kind, raw) : { problem: `${kind}: an entry is not an object` };
      if ("problem" in read) problems.push(read.problem);
      // A call could not distinguish two entries of one name.
      else if (entries.has(read.key)) {
        problems.push(`${kind}: "${foreignText(read.key)}" is listed twice; the first entry is used`);
      } else if (total + read.bytes > CATALOGUE_BYTES_MAX) {
        problems.push(`${kind}: the list exceeds ${CATALOGUE_BYTES_MAX} bytes; the rest is omitted`);
        break;
      } else {
        total += read.bytes;
        entries.set(read.key, { text: read.text, bytes: read.bytes });
      }
    }
    const changed = !hasSameEntries(this.#entries[kind], entries);
    this.#entries[kind] = entries;
    return { changed, problems };
  }

  #read(kind: ListKind, raw: Record<string, unknown>): { key: string } & EntryText | { problem: string } {
    try {
      const read = READERS[kind](this.#server, raw);
      if ("problem" in read) return read;
      const text = JSON.stringify(read.entry);
      const bytes = byteLength(text);
      if (isDeeper(text, DEPTH_MAX)) {
        return { problem: `${kind}: "${foreignText(read.key)}" is nested deeper than ${DEPTH_MAX} levels` };
      }
      if (bytes <= ENTRY_BYTES_MAX) return { key: read.key, text, bytes };
      return { problem: `${kind}: "${foreignText(read.key)}" exceeds ${ENTRY_BYTES_MAX} bytes` };
    } catch {
      // Nesting that overflows the stack.
      return { problem: `${kind}: an entry cannot be serialized as JSON` };
    }
  }
}

function hasSameEntries(a: Map<string, EntryText>, b: Map<string, EntryText>): boolean {
  if (a.size !== b.size) return false;
  for (const [key, { text }] of a) if (b.get(key)?.text !== text) return false;
  return true;
}
