/**
 * Engines that answer questions over a fleet. DuckDB and chdb (ClickHouse in process) come from npm and are
 * not part of sbx: hundreds of megabytes that only fleet queries need. They are installed beside it, and
 * loaded on use.
 */
import type { Dialect, SqlParameter } from "../detection/sql/mod.ts";
import { createRequire } from "node:module";
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import type { ClickHouseClient } from "./clickhouse/mod.ts";

export type Row = Record<string, string | number | boolean | null>;
export type Parameters = Record<string, SqlParameter>;

/** A database that answers statements. */
export interface Engine extends AsyncDisposable {
  readonly dialect: Dialect;
  /** Runs one statement. @throws {SbxError} `fleet.query.failed` */
  rows(sql: string, parameters?: Parameters): Promise<Row[]>;
}

/** Packages and the versions that sbx is tested with. */
export const ENGINES = { "@duckdb/node-api": "1.5.6-r.1", chdb: "3.4.0" } as const;
export type EngineName = keyof typeof ENGINES;

/** Folder that has `node_modules`. */
export function enginesFolder(): string {
  const named = Deno.env.get("SBX_FLEET_ENGINES");
  if (named) return named;
  return join(Deno.env.get("SBX_HOME") ?? join(Deno.env.get("HOME") ?? ".", ".sbx"), "fleet", "engines");
}

/** Loads an engine. @throws {SbxError} `fleet.engine.missing` */
// deno-lint-ignore no-explicit-any -- the engine is no dependency: its types are missing
export function loadEngine(name: EngineName): any {
  const folder = enginesFolder();
  const version = ENGINES[name];
  const install = `sbx-admin fleet engines${name === "chdb" ? " chdb" : ""}`;
  let found: string;
  try {
    found = JSON.parse(Deno.readTextFileSync(join(folder, "node_modules", name, "package.json"))).version;
  } catch (cause) {
    throw new SbxError("fleet.engine.missing", `${name} is not installed in ${folder}`, {
      cause,
      hint: install,
    });
  }
  if (found !== version) {
    throw new SbxError(
      "fleet.engine.missing",
      `${name} in ${folder} has version ${found}, and sbx needs ${version}`,
      {
        hint: install,
      },
    );
  }
  return createRequire(join(folder, "package.json"))(name);
}

/** A ClickHouse server. */
export class ClickHouseServer implements Engine {
  readonly dialect = "clickhouse";

  constructor(readonly client: ClickHouseClient) {}

  rows(sql: string, parameters: Parameters = {}): Promise<Row[]> {
    return this.client.rows(sql, parameters);
  }

  [Symbol.asyncDispose]() {
    return Promise.resolve();
  }
}

/** ClickHouse in this process, without a server. */
export class ChDb implements Engine {
  readonly dialect = "clickhouse";
  // deno-lint-ignore no-explicit-any -- the engine is no dependency: its types are missing
  readonly #library: any;

  constructor() {
    this.#library = loadEngine("chdb");
  }

  async rows(sql: string, parameters: Parameters = {}): Promise<Row[]> {
    try {
      const values = Object.fromEntries(
        Object.entries(parameters).map(([name, { values, type }]) => {
          const plain = type === "string" ? values.map((value) => (value as string).toWellFormed()) : values;
          return [name, plain.length === 1 ? plain[0] : plain];
        }),
      );
      const settings =
        "SETTINGS output_format_json_quote_64bit_integers = 0, join_use_nulls = 1, max_memory_usage = 4000000000";
      const result = await this.#library.queryBindAsync(`${sql.trimEnd()}\n${settings}`, values, {
        format: "JSONEachRow",
      });
      const text: string = typeof result === "string" ? result : await result.text();
      return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
    } catch (cause) {
      throw new SbxError(
        "fleet.query.failed",
        `ClickHouse: ${(cause as Error).message.split("\n")[0].slice(0, 500)}`,
        {
          cause,
        },
      );
    }
  }

  [Symbol.asyncDispose]() {
    return Promise.resolve();
  }
}

/** Memory of one statement; beyond it DuckDB uses its temporary folder. */
const MEMORY = "2GB";

/** DuckDB in this process. */
export class DuckDb implements Engine {
  readonly dialect = "duckdb";

  // deno-lint-ignore no-explicit-any -- the engine is no dependency: its types are missing
  private constructor(readonly instance: any, readonly connection: any, readonly library: any) {}

  static async open(path = ":memory:"): Promise<DuckDb> {
    const library = loadEngine("@duckdb/node-api");
    try {
      // Extensions come with the package; nothing is fetched.
      const instance = await library.DuckDBInstance.create(path, {
        autoinstall_known_extensions: "false",
        memory_limit: MEMORY,
        preserve_insertion_order: "false",
      });
      return new DuckDb(instance, await instance.connect(), library);
    } catch (cause) {
      throw failed(cause);
    }
  }

  async rows(sql: string, parameters: Parameters = {}): Promise<Row[]> {
    try {
      const { values, types } = this.#bind(parameters);
      const reader = await this.connection.runAndReadAll(sql, values, types);
      return reader.getRowObjectsJS().map(toRow);
    } catch (cause) {
      throw failed(cause);
    }
  }

  #bind(parameters: Parameters) {
    const { LIST, VARCHAR, BIGINT, BOOLEAN, listValue } = this.library;
    const scalar = { string: VARCHAR, number: BIGINT, bool: BOOLEAN };
    const values: Record<string, unknown> = {}, types: Record<string, unknown> = {};
    for (const [name, parameter] of Object.entries(parameters)) {
      const of = valuesOf(parameter);
      values[name] = of.length === 1 ? of[0] : listValue(of);
      types[name] = of.length === 1 ? scalar[parameter.type] : LIST(scalar[parameter.type]);
    }
    return { values, types };
  }

  [Symbol.asyncDispose]() {
    this.connection.closeSync();
    this.instance.closeSync();
    return Promise.resolve();
  }
}

function valuesOf({ type, values }: SqlParameter): (string | bigint | boolean)[] {
  if (type === "number") return values.map((value) => BigInt(value));
  return type === "string" ? values.map((value) => value.toWellFormed()) : values;
}

function toRow(row: Record<string, unknown>): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "bigint"
        ? Number(value)
        : value instanceof Date
        ? value.toISOString()
        : value as string,
    ]),
  );
}

function failed(cause: unknown): SbxError {
  return new SbxError(
    "fleet.query.failed",
    `DuckDB: ${(cause as Error).message.split("\n")[0].slice(0, 500)}`,
    { cause },
  );
}
