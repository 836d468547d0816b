/**
 * Hunts in SQL: IR → one statement for ClickHouse, or one for DuckDB (docs/guides/fleet.md, "Hunts"). Values
 * of rules are parameters, so that no pack can write SQL.
 */
import { catalogue } from "../../event/mod.ts";
import type { DetectionIr, IrRule, MatchValue } from "../ir/ir.ts";

export type Dialect = "clickhouse" | "duckdb";

/** Values of one type, as one parameter. */
export type SqlParameter =
  | { type: "string"; values: string[] }
  | { type: "number"; values: number[] }
  | { type: "bool"; values: boolean[] };

/** A statement with its parameters by name. */
export interface HuntSql {
  sql: string;
  parameters: Record<string, SqlParameter>;
  /** rules by the number that the column `rule` has */
  rules: { rule: IrRule; pack_id: string }[];
}

/** Where events and their ends are. */
export interface HuntSource {
  /** table or subquery with the columns of `columnOf` for these fields */
  events(fields: readonly string[]): string;
  outcomes(fields: readonly string[]): string;
}

/** Columns of each row of a hunt, before the number of its rule. */
const ROW = ["machine_id", "session_id", "sequence", "event_id", "event_type", "timestamp_unix_ms"];

/** Column of a field; columns common to all events drop the prefix `common`. */
export function columnOf(path: string): string {
  return path.replace(/^common\./, "").replaceAll(".", "_");
}

/** Column of a response's field in the table of ends, which is the same for all families. */
export function outcomeColumnOf(path: string): string {
  return path.split(".").slice(1).join("_");
}

/** True if an event gets a field at its end. */
export function isOfResponse(path: string): boolean {
  return path.split(".")[1] === "response" && path.split(".")[0] !== "common";
}

/** Part of the past that a statement reads. */
export interface HuntPeriod {
  /** Unix `ms` of the first event, and of the first one that is not looked at */
  since?: number;
  until?: number;
  /** most matches */
  limit?: number;
}

/** Compiles packs into one statement, whose rows are the matches. */
export function huntSql(
  irs: readonly DetectionIr[],
  dialect: Dialect,
  source: HuntSource,
  period: HuntPeriod = {},
): HuntSql {
  const rules = irs.flatMap((ir) => ir.rules.map((rule) => ({ rule, pack_id: ir.pack_id })));
  const writer = new Writer(dialect, period);
  const numbered = rules.map(({ rule }, number) => ({ rule, number })).filter(({ rule }) => canMatch(rule));
  const parts = [
    writer.select(numbered.filter(({ rule }) => !hasResponse(rule)), source, false),
    writer.select(numbered.filter(({ rule }) => hasResponse(rule)), source, true),
  ].filter((part) => part !== "");
  const sql = parts.length === 0
    ? `SELECT ${ROW.map((name) => `NULL AS ${name}`).join(", ")}, 0 AS rule WHERE 1 = 0`
    : `SELECT * FROM (\n${
      parts.join("\nUNION ALL\n")
    }\n) AS matches ORDER BY machine_id, session_id, sequence, rule${
      period.limit === undefined ? "" : ` LIMIT ${Math.trunc(period.limit)}`
    }`;
  return { sql: sql + "\n", parameters: writer.parameters, rules };
}

/** A rule whose field is unknown, or has values of another type only, never matches. */
function canMatch({ matchers }: IrRule): boolean {
  return matchers.every(({ field_path, values }) => typedValues(field_path, values) !== undefined);
}

function hasResponse({ matchers }: IrRule): boolean {
  return matchers.some(({ field_path }) => isOfResponse(field_path));
}

function typedValues(path: string, values: readonly MatchValue[]): SqlParameter | undefined {
  const type = catalogue.get(path)?.type;
  if (type !== "string" && type !== "number" && type !== "bool") return undefined;
  const js = type === "bool" ? "boolean" : type;
  const fitting = values.filter((value) =>
    typeof value === js && (type !== "number" || Number.isSafeInteger(value))
  );
  return fitting.length === 0 ? undefined : { type, values: fitting } as SqlParameter;
}

class Writer {
  readonly parameters: Record<string, SqlParameter> = {};
  readonly #names = new Map<string, string>();

  constructor(readonly dialect: Dialect, readonly period: HuntPeriod) {}

  /** Matches of rules over one table, or over events joined with their ends. */
  select(rules: readonly { rule: IrRule; number: number }[], source: HuntSource, joined: boolean): string {
    if (rules.length === 0) return "";
    const fields = [
      ...new Set(rules.flatMap(({ rule }) => rule.matchers.map(({ field_path }) => field_path))),
    ];
    const ends = fields.filter(isOfResponse);
    const from = joined
      ? `${source.events(fields)} AS e LEFT JOIN ${firstEnds(source.outcomes(ends), ends)} AS o ` +
        "ON o.machine_id = e.machine_id AND o.session_id = e.session_id AND o.event_id = e.event_id"
      : `${source.events(fields)} AS e`;
    const tests = rules.map(({ rule, number }) => ({ number, test: this.#test(rule) }));
    const row = ROW.map((name) => `e.${name} AS ${name}`).join(", ");
    const { since, until } = this.period;
    const bounds = [[">=", since] as const, ["<", until] as const].map(([sign, at]) =>
      at === undefined
        ? ""
        : `e.timestamp_unix_ms ${sign} ${this.#parameter({ type: "number", values: [at] })} AND `
    );
    const any = `${bounds.join("")}(${tests.map(({ test }) => `(${test})`).join("\n    OR ")})`;
    if (this.dialect === "duckdb") {
      const cases = tests.map(({ number, test }) => `CASE WHEN ${test} THEN ${number} END`).join(",\n    ");
      return `SELECT * FROM (SELECT ${row}, unnest([${cases}]) AS rule\n  FROM ${from}\n  WHERE ${any})\n  WHERE rule IS NOT NULL`;
    }
    const cases = tests.map(({ number, test }) => `if(${test}, ${number + 1}, 0)`).join(",\n    ");
    return `SELECT ${row}, arrayJoin(arrayFilter(r -> r > 0, [${cases}])) - 1 AS rule\n  FROM ${from}\n  WHERE ${any}`;
  }

  #test({ event_family, matchers }: IrRule): string {
    const family = this.#parameter({ type: "string", values: [event_family] });
    return [
      `e.family = ${family}`,
      ...matchers.map((matcher) => this.#matcher(matcher.field_path, matcher.values)),
    ]
      .join(" AND ");
  }

  #matcher(path: string, values: readonly MatchValue[]): string {
    const parameter = typedValues(path, values)!;
    const own = `e.${columnOf(path)}`;
    const field = isOfResponse(path)
      ? `CASE WHEN o.has_response THEN o.${outcomeColumnOf(path)} ELSE ${own} END`
      : own;
    const name = this.#parameter(parameter);
    const test = parameter.values.length === 1
      ? `${field} = ${name}`
      : this.dialect === "duckdb"
      ? `list_contains(${name}, ${field})`
      : `has(${name}, assumeNotNull(${field})) AND ${field} IS NOT NULL`;
    // A missing field never matches, and is not "unknown".
    return `coalesce(${test}, false)`;
  }

  /** Placeholder of a parameter; equal values share one. */
  #parameter(parameter: SqlParameter): string {
    const key = JSON.stringify(parameter);
    let name = this.#names.get(key);
    if (name === undefined) {
      name = `p${this.#names.size + 1}`;
      this.#names.set(key, name);
      this.parameters[name] = parameter;
    }
    const single = parameter.values.length === 1;
    if (this.dialect === "duckdb") return `$${name}`;
    const type = { string: "String", number: "Int64", bool: "Bool" }[parameter.type];
    return `{${name}:${single ? type : `Array(${type})`}}`;
  }
}

/** The first end of each event: later ones do not count. */
function firstEnds(outcomes: string, fields: readonly string[]): string {
  const columns = ["has_response", ...new Set(fields.map(outcomeColumnOf))];
  const picked = columns.map((name) => `${name}`).join(", ");
  return `(SELECT machine_id, session_id, event_id, ${picked} FROM ` +
    `(SELECT *, row_number() OVER (PARTITION BY machine_id, session_id, event_id ORDER BY number) AS place FROM ${outcomes} AS ends) AS placed ` +
    "WHERE place = 1)";
}
