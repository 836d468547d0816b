import type { ClickHouseClient } from "../clickhouse/mod.ts";
import type { Engine, Parameters, Row } from "./engine.ts";

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
