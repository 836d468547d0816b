/** ClickHouse over its HTTP interface. */
import { SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { SqlParameter } from "../../detection/sql/mod.ts";
import { hostFetch } from "../../base/proxy/mod.ts";
import { isLoopbackHost, shownAddress } from "../../base/url/mod.ts";

/** Ports of the HTTP interface: with TLS, and on loopback without. */
const PORT_TLS = 8443;
const PORT_PLAIN = 8123;

/** A database of a ClickHouse server, by its HTTP interface. */
export interface ClickHouseAddress {
  /** http only on loopback */
  url: URL;
  database: string;
  user?: string;
  /** the address, for messages */
  name: string;
}

/** Parses `clickhouse://[USER@]HOST[:PORT][/DATABASE]`. @throws {SbxError} `fleet.url.invalid` */
export function parseClickHouse(text: string): ClickHouseAddress {
  const rest = /^clickhouse:\/\/(.+)$/.exec(text)?.[1];
  const parsed = rest === undefined ? null : URL.parse(`https://${rest}`);
  const database = parsed?.pathname.slice(1) || "default";
  if (!parsed || parsed.password || parsed.search || parsed.hash || !/^[A-Za-z_]\w{0,63}$/.test(database)) {
    throw new SbxError(
      "fleet.url.invalid",
      `"${shownAddress(text)}" is not the address of a ClickHouse server`,
      {
        hint: "use clickhouse://HOST, with a port and /DATABASE if you like; --credential names a password",
      },
    );
  }
  const { hostname, username } = parsed;
  const isHere = isLoopbackHost(hostname);
  const port = Number(parsed.port || (isHere ? PORT_PLAIN : PORT_TLS));
  return {
    url: new URL(`${isHere ? "http" : "https"}://${hostname}:${port}/`),
    database,
    ...(username && { user: decodeURIComponent(username) }),
    name: `clickhouse://${hostname}:${port}/${database}`,
  };
}

/** Longest wait for an answer, in `ms`: a hunt over a year takes minutes. */
const ANSWER_MS = timeLimit(15 * 60_000);
/** Longest answer that is read, in characters. */
const ANSWER_MAX = 256 * 1024 * 1024;
/** Most characters of an error or a strange answer that are shown. */
const SAID_MAX = 500;
/** Settings of each SELECT, so that rows match the other engines' rows. */
const SETTINGS = "SETTINGS output_format_json_quote_64bit_integers = 0, join_use_nulls = 1";

/** A column that the table lacks is an error, and not left out. */
const STRICT = "input_format_skip_unknown_fields = 0";

export type ClickHouseRow = Record<string, string | number | boolean | null>;

/** A ClickHouse server. Values go as parameters beside the statement, never in its text. */
export class ClickHouseClient {
  readonly address: ClickHouseAddress;
  readonly #authorize?: (url: URL) => Promise<string>;

  constructor(address: ClickHouseAddress, authorize?: (url: URL) => Promise<string>) {
    this.address = address;
    this.#authorize = authorize;
  }

  /** Runs a SELECT. @throws {SbxError} `fleet.query.failed`, `fleet.unavailable` */
  async rows(sql: string, parameters: Record<string, SqlParameter> = {}): Promise<ClickHouseRow[]> {
    const form = new FormData();
    form.set("query", `${sql.trimEnd()}\n${SETTINGS}\nFORMAT JSONEachRow`);
    for (const [name, parameter] of Object.entries(parameters)) {
      form.set(`param_${name}`, formatParameter(parameter));
    }
    // Without it an error may come in the middle of the rows.
    const text = await this.#post({ wait_end_of_query: "1" }, form);
    try {
      return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
    } catch (cause) {
      const said = plain(text.trimStart().split("\n")[0]).slice(0, SAID_MAX);
      throw new SbxError(
        "fleet.unavailable",
        `${this.address.name} answers with something other than JSON: ${said}`,
        {
          cause,
          hint: "is it a ClickHouse server? the port is that of its HTTP interface",
        },
      );
    }
  }

  /** Runs a statement that answers nothing. @throws as `rows` */
  async run(sql: string): Promise<void> {
    await this.#post({}, sql);
  }

  /** Inserts rows, all or none. @param settings of the statement @throws as `rows` */
  async insert(table: string, rows: readonly unknown[], settings: readonly string[] = []): Promise<void> {
    const lines = rows.map((row) => JSON.stringify(row)).join("\n");
    await this.#post({
      query: `INSERT INTO ${table} SETTINGS ${[STRICT, ...settings].join(", ")} FORMAT JSONEachRow`,
    }, `${lines}\n`);
  }

  async #post(search: Record<string, string>, body: string | FormData): Promise<string> {
    const { url, database, user, name } = this.address;
    const at = new URL(url);
    at.search = new URLSearchParams({ database, ...search }).toString();
    const authorization = await this.#authorize?.(url) ?? (user && `Basic ${basic(user)}`);
    let response: Response;
    let text: string;
    try {
      response = await hostFetch(at, {
        method: "POST",
        headers: { ...(authorization && { authorization }) },
        body,
        redirect: "manual",
        signal: AbortSignal.timeout(ANSWER_MS),
      });
      text = await readText(response);
    } catch (cause) {
      if (cause instanceof SbxError) throw cause;
      throw new SbxError("fleet.unavailable", `${name} does not answer`, {
        cause,
        hint: "is the server running? the port is that of its HTTP interface",
      });
    }
    if (response.ok) return text;
    const said = plain(text.split("\n")[0]).slice(0, SAID_MAX);
    // A server that starts, is full or is read-only, or a proxy before it.
    const isAway = response.status >= 502 || response.status < 400;
    throw new SbxError(
      isAway ? "fleet.unavailable" : "fleet.query.failed",
      `${name} answers with status ${response.status}: ${said}`,
      response.status === 401 || response.status === 403 || response.status === 516
        ? { hint: "check the user and its password" }
        : {},
    );
  }
}

function basic(user: string): string {
  return new TextEncoder().encode(`${user}:`).toBase64();
}

async function readText(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let length = 0;
  for await (const chunk of response.body ?? []) {
    const part = decoder.decode(chunk, { stream: true });
    length += part.length;
    if (length > ANSWER_MAX) {
      throw new SbxError("fleet.query.failed", `the answer has more than ${ANSWER_MAX} characters`, {
        hint: "ask for a shorter time, or hunt with fewer rules",
      });
    }
    parts.push(part);
  }
  return parts.join("");
}

// Values of parameters as the HTTP interface takes them: `param_NAME`, read by the
// type that the statement declares.

const ESCAPES: Record<string, string> = {
  "\\": "\\\\",
  "\0": "\\0",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** One value stands for itself, several are an array. */
function formatParameter({ type, values }: SqlParameter): string {
  if (type !== "string") return values.length === 1 ? String(values[0]) : `[${values.join(",")}]`;
  if (values.length === 1) return escape(values[0]);
  return `[${values.map((value) => `'${escape(value).replaceAll("'", "\\'")}'`).join(",")}]`;
}

function escape(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.toWellFormed().replaceAll(/[\\\x00\x08\f\n\r\t]/g, (character) => ESCAPES[character]);
}
