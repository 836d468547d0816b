import { SbxError } from "../../base/error/mod.ts";
import type { SqlParameter } from "../../detection/sql/mod.ts";
import type { Engine, Parameters, Row } from "./engine.ts";
import { loadEngine } from "./load.ts";

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
