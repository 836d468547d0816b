/** Prepared statements and portals of a PostgreSQL connection, by which an Execute is read. */
import type { Passage } from "../../policy/mod.ts";
import { PREPARED_MAX } from "./limit.ts";
import { KINDS, type Reading } from "./statement.ts";

/** A statement that the server knows, or will. */
export interface Prepared {
  reading: Reading;
  /** length of its text in `bytes` */
  bytes: number;
  /** of its Parse, until that is answered: the first Execute behind it is the same event */
  passage?: Passage;
}

interface Portal {
  prepared: Prepared;
  /** the turn of its Bind */
  turn: object;
  /** its first Execute was decided on; the next ones fetch more of the same rows */
  isRunning: boolean;
}

/** Statements of one name: one that the server has, and ones that it was sent. */
interface Named {
  known?: Prepared;
  sent: Prepared[];
}

/**
 * Follows the names as the server does, which does not run all that it gets: it skips everything after an
 * error, and refuses a name that is taken.
 */
export class PreparedNames {
  readonly #statements = new Map<string, Named>();
  readonly #portals = new Map<string, Portal>();

  /** Notes a Parse on its way. */
  parse(name: string, prepared: Prepared): void {
    const named = this.#statements.get(name) ?? { sent: [] };
    named.sent.push(prepared);
    this.#statements.set(name, named);
    // A forgotten one counts as unknown.
    if (this.#statements.size > PREPARED_MAX) this.#statements.delete(this.#statements.keys().next().value!);
  }

  /** The server has accepted a Parse. */
  accepted(name: string, prepared: Prepared): void {
    const named = this.#statements.get(name);
    if (!named) return;
    named.known = prepared;
    named.sent = named.sent.filter((each) => each !== prepared);
  }

  /** The server did not run a Parse. */
  failed(name: string, prepared: Prepared): void {
    const named = this.#statements.get(name);
    if (!named) return;
    named.sent = named.sent.filter((each) => each !== prepared);
    // A failed Parse without a name ends the earlier one.
    if (!named.known && named.sent.length === 0) this.#statements.delete(name);
  }

  /** The server has closed a statement. */
  closed(name: string): void {
    const named = this.#statements.get(name);
    if (!named) return;
    delete named.known;
    if (named.sent.length === 0) this.#statements.delete(name);
  }

  /**
   * Notes a Bind.
   *
   * @param turn the turn that it is in
   * @param current the Parse of that name in the same turn, which the server has run if it runs the Bind
   */
  bind(portal: string, name: string, turn: object, current: Prepared | undefined): void {
    const prepared = current ?? strongest(this.#statements.get(name)) ?? unknown(name);
    const before = portal === "" ? undefined : this.#portals.get(portal)?.prepared;
    const isWeaker = before && strengthOf(before) > strengthOf(prepared);
    // The server refuses a portal's name that is taken: this may be the one before.
    this.#portals.set(portal, { prepared: isWeaker ? before : prepared, turn, isRunning: false });
    if (this.#portals.size > PREPARED_MAX) this.#portals.delete(this.#portals.keys().next().value!);
  }

  /** The statement of an Execute; a portal that is not known is a cursor of SQL, which may be anything. */
  portal(name: string): Portal {
    const known = this.#portals.get(name);
    if (known) return known;
    return { prepared: unknown(name), turn: this, isRunning: false };
  }

  closePortal(name: string): void {
    this.#portals.delete(name);
  }

  /**
   * Portals end with their transaction; a client may have sent the Bind of a later one already.
   * @param later turns without their end
   */
  endTransaction(later: readonly object[]): void {
    if (this.#portals.size === 0) return;
    const open = new Set(later);
    for (const [name, { turn }] of this.#portals) if (!open.has(turn)) this.#portals.delete(name);
  }
}

function strengthOf({ reading }: Prepared): number {
  return KINDS.indexOf(reading.kind);
}

function strongest(named: Named | undefined): Prepared | undefined {
  const all = [...(named?.known ? [named.known] : []), ...named?.sent ?? []];
  return all.length === 0 ? undefined : all.reduce((a, b) => strengthOf(b) > strengthOf(a) ? b : a);
}

function unknown(name: string): Prepared {
  return {
    reading: { kind: "admin", command: "EXECUTE", fingerprint: `execute "${name.slice(0, 64)}"` },
    bytes: 0,
  };
}
