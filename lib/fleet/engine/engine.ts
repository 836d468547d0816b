import type { Dialect, SqlParameter } from "../../detection/sql/mod.ts";

export type Row = Record<string, string | number | boolean | null>;
export type Parameters = Record<string, SqlParameter>;

/** A database that answers statements. */
export interface Engine extends AsyncDisposable {
  readonly dialect: Dialect;
  /** Runs one statement. @throws {SbxError} `fleet.query.failed` */
  rows(sql: string, parameters?: Parameters): Promise<Row[]>;
}
