/** A libSQL server of another machine, by its HTTP interface. Its library is loaded only where there is a server. */
import { timeLimit } from "../../base/time/mod.ts";
import type { Client, InValue } from "@libsql/client";
import { hostFetch } from "../../base/proxy/mod.ts";

/** Longest wait for one answer, in `ms`. */
const ANSWER_MS = timeLimit(30_000);

/** A row by column: texts, numbers and null. */
export type RemoteRow = Record<string, string | number | null>;

/** Statements of a libSQL server. Throws the library's errors. */
export class RemoteDatabase {
  readonly #client: Client;

  private constructor(client: Client) {
    this.#client = client;
  }

  /** @param url `https:`, or `http:` on loopback */
  static async open(url: string, authToken?: string): Promise<RemoteDatabase> {
    const { createClient } = await import("@libsql/client");
    const fetch = (request: Request) => hostFetch(request, { signal: AbortSignal.timeout(ANSWER_MS) });
    return new RemoteDatabase(createClient({ url, ...(authToken !== undefined && { authToken }), fetch }));
  }

  /** Runs a statement. @returns its rows, and how many it changed */
  async run(sql: string, args: (string | number)[] = []): Promise<{ rows: RemoteRow[]; changed: number }> {
    const { columns, rows, rowsAffected } = await this.#client.execute({ sql, args: args as InValue[] });
    return {
      rows: rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]])) as RemoteRow),
      changed: rowsAffected,
    };
  }

  close(): void {
    this.#client.close();
  }
}
