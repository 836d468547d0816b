/** A ledger that stays open while the rows after a position are read, page by page. */
import type { Client } from "../database.ts";
import { openLedger, readError } from "./open.ts";
import { type ChainLengths, lengthsOf } from "./rows.ts";
import { type EndedRange, type EventText, selectEndedTexts, selectEventTexts } from "./texts.ts";

/** Opening a ledger for each page would cost as much as reading 500 of its rows. */
export class LedgerTail {
  readonly #path: string;
  readonly #client: Client;

  private constructor(path: string, client: Client) {
    this.#path = path;
    this.#client = client;
  }

  /** @throws {SbxError} as `openLedger`; `ledger.invalid` */
  static async open(path: string): Promise<LedgerTail> {
    try {
      return new LedgerTail(path, await openLedger(path));
    } catch (error) {
      throw readError(error, path);
    }
  }

  /** Rows that the ledger has now. */
  lengths(): Promise<ChainLengths> {
    return this.#read(lengthsOf);
  }

  /**
   * Reads the texts of events, oldest first, and passes each one on.
   * @param after sequence of the last one before
   */
  async events(after: number, limit: number, visit: (event: EventText) => void): Promise<void> {
    await this.#read((client) => selectEventTexts(client, after, limit, visit));
  }

  /**
   * Reads the texts of events whose first end is in a range, and passes each one on.
   * @returns number of the last outcome that was read
   */
  ended(range: EndedRange, visit: (event: EventText) => void): Promise<number> {
    return this.#read((client) => selectEndedTexts(client, range, visit));
  }

  close(): void {
    this.#client.close();
  }

  async #read<T>(read: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await read(this.#client);
    } catch (error) {
      throw readError(error, this.#path);
    }
  }
}
