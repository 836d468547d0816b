import { SbxError } from "../../base/error/mod.ts";
import type { Engine, Parameters, Row } from "./engine.ts";
import { loadEngine } from "./load.ts";

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
