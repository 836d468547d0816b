/**
 * Hosts that the VMs of each profile contact, kept for `history.known` (docs/design/contracts/05-policy.md
 * §5, "Known hosts"): heard from the VMs' processes, and written to one file a profile.
 */
import { dirname } from "node:path";
import { type Home, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { Event } from "../../event/mod.ts";
import {
  type Ask,
  contactOf,
  contactsPath,
  type ContactTable,
  emptyContacts,
  formatContacts,
  parseContacts,
} from "../../policy/mod.ts";
import type { SessionNotice } from "../../session/gate/mod.ts";
import type { Notice, Notices } from "../notice.ts";

/** `ms` after a new contact until it is in the file. */
const WRITE_MS = 500;
/** Most events that wait for a person and are remembered; AskQueue has at most 100 of one VM. */
const WAITING_MAX = 10_000;
/** `ms` after which the time of a contact is written again. */
const AGAIN_MS = 24 * 60 * 60_000;

interface Book {
  /** read from the file at the first contact */
  table: Promise<ContactTable>;
  timer?: boolean;
  written: Promise<unknown>;
}

export class Contacts implements Disposable {
  readonly #home: Pick<Home, "dir">;
  readonly #books = new Map<string, Book>();
  readonly #waiting = new Map<string, Event>();
  readonly #stop: () => void;

  constructor({ home, notices }: { home: Pick<Home, "dir">; notices: Notices }) {
    this.#home = home;
    this.#stop = notices.listen((notice) => this.#take(notice));
  }

  /** Ends the listening, and writes the contacts of the last moment. */
  async close(): Promise<void> {
    this.#stop();
    await Promise.all([...this.#books].map(([profile, book]) => this.#write(profile, book)));
  }

  [Symbol.dispose](): void {
    this.#stop();
  }

  #take(notice: Notice): void {
    const { type, payload } = notice as SessionNotice;
    if (type === "ask") return this.#answer(payload);
    if (type !== "security-event") return;
    const { event, decision } = payload;
    if (!contactOf(event)) return;
    if (decision === undefined || decision.decision === "allow") this.#meet(event);
    else if (decision.decision === "ask" && this.#waiting.size < WAITING_MAX) {
      this.#waiting.set(event.common.event_id, event);
    }
  }

  /** An event that a person allowed goes ahead. */
  #answer({ event_id, status }: Ask): void {
    if (status === "pending") return;
    const event = this.#waiting.get(event_id);
    this.#waiting.delete(event_id);
    if (event && status === "allowed") this.#meet(event);
  }

  #meet(event: Event): void {
    const { field, host } = contactOf(event)!;
    const { profile_id, timestamp_unix_ms: at } = event.common;
    let book = this.#books.get(profile_id);
    if (!book) {
      this.#books.set(profile_id, book = { table: this.#read(profile_id), written: Promise.resolve() });
    }
    const known = book;
    book.table.then((table) => {
      if (at - (table[field].get(host) ?? -Infinity) < AGAIN_MS) return;
      table[field].set(host, at);
      if (known.timer) return;
      known.timer = true;
      backgroundTimeout(() => void this.#write(profile_id, known), WRITE_MS);
    });
  }

  /** One that cannot be read is begun again: its hosts count as new, which is the strict answer. */
  async #read(profileId: string): Promise<ContactTable> {
    try {
      return parseContacts(await Deno.readTextFile(contactsPath(this.#home.dir, profileId)));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) {
        log.warn(`the contacts of profile "${profileId}" are begun again:`, error);
      }
      return emptyContacts();
    }
  }

  async #write(profileId: string, book: Book): Promise<void> {
    const table = await book.table;
    if (!book.timer) return void await book.written;
    book.timer = false;
    const path = contactsPath(this.#home.dir, profileId);
    const before = book.written;
    book.written = (async () => {
      await before;
      try {
        await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
        await writeAtomic(path, formatContacts(table, Date.now()));
      } catch (error) {
        log.warn(`the contacts of profile "${profileId}" cannot be written:`, error);
      }
    })();
    await book.written;
  }
}
