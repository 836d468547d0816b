/**
 * The kind of a statement of SQL, by its syntax (docs/design/contracts/05-policy.md §5,
 * "Databases"). This is policy, so it errs to the stronger kind: a text that two servers may read in
 * two ways counts as the stronger one.
 */
import words from "./words.json" with { type: "json" };
import { FINGERPRINT_MAX, PREPARED_NAME_MAX } from "./limit.ts";

/** Kinds in order of strength. */
export const KINDS = ["read", "write", "ddl", "admin"] as const;
export type StatementKind = typeof KINDS[number];

/** The reading of a text with statements. */
export interface Reading {
  kind: StatementKind;
  /** first word of the strongest statement, upper case */
  command: string;
  /** the text with `?` in place of each literal */
  fingerprint: string;
  /** of MySQL: the database that a text with nothing else chooses */
  uses?: string;
  /** name of the prepared statement that it makes, runs or ends */
  prepared?: string;
}

export type SqlDialect = "postgres" | "mysql";

/** A word, an identifier in quotes, a literal or another character of a statement. */
interface Token {
  kind: "word" | "name" | "literal" | "sign";
  /** of a word or name in lower case; of a literal `?` */
  text: string;
  /** of a short string near the beginning, as it is written */
  value?: string;
  /** of a word or name near the beginning, with its own case: databases may differ by it */
  written?: string;
}

/** How a server may read the same text. */
interface Variant {
  dialect: SqlDialect;
  /** a backslash in a plain string escapes the next character */
  escapes: boolean;
  /** double quotes hold a name, not a string */
  quotedNames: boolean;
}

/**
 * Reads a text of SQL with any number of statements.
 *
 * @param escapes the server says whether a backslash escapes; absent: it may
 */
export function readSql(text: string, dialect: SqlDialect, escapes?: boolean): Reading {
  const [first, ...others] = variantsOf(text, dialect, escapes).map((variant) => readVariant(text, variant));
  // The fingerprint that hides most is the shortest of names.
  return others.reduce((strongest, each) => isStronger(each, strongest) ? each : strongest, first);
}

function isStronger(a: Pick<Reading, "kind">, b: Pick<Reading, "kind">): boolean {
  return KINDS.indexOf(a.kind) > KINDS.indexOf(b.kind);
}

/** Every way in which settings of a session let the server read the text; the usual one first. */
function variantsOf(text: string, dialect: SqlDialect, escapes?: boolean): Variant[] {
  const usual: Variant = {
    dialect,
    escapes: escapes ?? dialect === "mysql",
    quotedNames: dialect === "postgres",
  };
  const variants = [usual];
  if (escapes === undefined && text.includes("\\")) variants.push({ ...usual, escapes: !usual.escapes });
  // PostgreSQL knows one meaning of double quotes.
  if (dialect === "mysql" && text.includes('"')) {
    variants.push(...variants.map((each) => ({ ...each, quotedNames: true })));
  }
  return variants;
}

function readVariant(text: string, variant: Variant): Reading {
  const lexer = new Lexer(text, variant);
  const tokens = lexer.tokens();
  let strongest: Pick<Reading, "kind" | "command"> = { kind: "read", command: "" };
  const statements = [...statementsOf(tokens)];
  for (const statement of statements) {
    const found = readStatement(statement, variant.dialect);
    if (strongest.command === "" || isStronger(found, strongest)) strongest = found;
  }
  // A text that the lexer did not understand, or a comment that a server executes, may do anything.
  if (lexer.isUncertain) strongest = { ...strongest, kind: "admin" };
  return {
    ...strongest,
    ...statements.length === 1
      ? namesOf(statements[0], variant.dialect)
      : chosenAmong(statements, variant.dialect),
    fingerprint: fingerprintOf(tokens),
  };
}

/** A database that is chosen among other statements is not the one that their event names: it may be any. */
function chosenAmong(statements: readonly Token[][], dialect: SqlDialect): Partial<Reading> {
  const uses = dialect === "mysql" &&
    statements.some(([first]) => first.kind === "word" && first.text === "use");
  return uses ? { kind: "admin", command: "USE" } : {};
}

/** Names in a statement that choose a database, or a prepared statement. */
function namesOf([first, second, third]: readonly Token[], dialect: SqlDialect): Partial<Reading> {
  if (first.kind !== "word") return {};
  const nameOf = (token: Token | undefined) =>
    token?.kind === "word" || token?.kind === "name" ? token.written ?? token.text : undefined;
  if (first.text === "use" && dialect === "mysql") {
    const uses = nameOf(second);
    // A name that cannot be read, or more behind it.
    return uses === undefined || third !== undefined ? { kind: "admin" } : { uses };
  }
  if (!["prepare", "execute", "deallocate"].includes(first.text)) return {};
  const isNoise = second?.text === "prepare" && third !== undefined;
  const prepared = nameOf(isNoise ? third : second);
  return prepared === undefined ? {} : { prepared: prepared.slice(0, PREPARED_NAME_MAX) };
}

function* statementsOf(tokens: readonly Token[]): Generator<Token[]> {
  let statement: Token[] = [];
  for (const token of tokens) {
    if (token.kind !== "sign" || token.text !== ";") statement.push(token);
    else {
      if (statement.length > 0) yield statement;
      statement = [];
    }
  }
  if (statement.length > 0) yield statement;
}

/** Most characters of a command's word. */
const COMMAND_MAX = 64;
const FUNCTIONS = new Set(words.functions);
const HARMLESS_SETTINGS = new Set(words.harmless_settings);
const ADMIN_OBJECTS = new Set(words.admin_objects);

function readStatement(tokens: readonly Token[], dialect: SqlDialect): Pick<Reading, "kind" | "command"> {
  const first = tokens.find(({ text }) => text !== "(");
  const command = first?.kind === "word" ? first.text : "";
  const ofFunctions = kindOfFunctions(tokens);
  const ofCommand = ofFunctions === "admin" ? ofFunctions : kindOfCommand(command, tokens, dialect);
  return {
    kind: isStronger({ kind: ofFunctions }, { kind: ofCommand }) ? ofFunctions : ofCommand,
    command: command.toUpperCase().slice(0, COMMAND_MAX),
  };
}

/**
 * Calls of functions that reach beyond the data of the database, also by a name in quotes. PostgreSQL calls a
 * function of one argument as if it were a column too: `('/etc/passwd'::text).pg_read_file`.
 */
function kindOfFunctions(tokens: readonly Token[]): StatementKind {
  const reaches = tokens.some(({ kind, text }, at) => {
    if (kind !== "word" && kind !== "name") return false;
    if (tokens[at + 1]?.text !== "(" && tokens[at - 1]?.text !== ".") return false;
    return FUNCTIONS.has(text) || words.function_prefixes.some((prefix) => text.startsWith(prefix));
  });
  return reaches ? "admin" : changesSequence(tokens) ? "write" : "read";
}

/** `nextval('s')`, and of MariaDB `NEXT VALUE FOR s` and `s.nextval`. */
function changesSequence(tokens: readonly Token[]): boolean {
  return tokens.some(({ kind, text }, at) => {
    if (kind !== "word" && kind !== "name") return false;
    const before = tokens[at - 1]?.text;
    if (text === "nextval") return tokens[at + 1]?.text === "(" || before === ".";
    return text === "value" && before === "next";
  });
}

function kindOfCommand(command: string, tokens: readonly Token[], dialect: SqlDialect): StatementKind {
  const has = (...texts: string[]) =>
    tokens.some(({ kind, text }) => kind === "word" && texts.includes(text));
  /** of a query: words that write may stand anywhere in it */
  const queryKind = (): StatementKind => {
    if (has("outfile", "dumpfile", "program")) return "admin";
    if (hasInto(tokens)) return dialect === "postgres" ? "ddl" : "write";
    return has("insert", "update", "delete", "merge", "replace", "truncate", "share") ? "write" : "read";
  };
  switch (command) {
    case "select":
    case "with":
    case "values":
    case "table":
      return queryKind();
    case "show":
    case "fetch":
    case "move":
    case "close":
    case "begin":
    case "start":
    case "commit":
    case "end":
    case "rollback":
    case "abort":
    case "savepoint":
    case "release":
    case "deallocate":
    case "listen":
    case "unlisten":
    case "help":
    case "use":
      if (command === "start" && !has("transaction") || isProgram(tokens, dialect)) return "admin";
      // COMMIT PREPARED ends the transaction of another session.
      return has("prepared") ? "write" : "read";
    case "declare":
      return dialect === "postgres" && has("cursor") ? queryKind() : "admin";
    case "prepare":
      return dialect === "postgres" ? preparedKind(tokens) : "admin";
    case "explain":
    case "describe":
    case "desc":
    case "analyze":
      if (command === "analyze" && (dialect === "postgres" || !has("select", "with"))) return "admin";
      return isAnalyzed(tokens) ? explainedKind(tokens, dialect) : "read";
    case "set":
      return isHarmlessSetting(tokens) ? "read" : "admin";
    case "insert":
    case "update":
    case "delete":
    case "merge":
    case "replace":
    case "notify":
    case "lock":
    case "unlock":
      return has("outfile", "dumpfile", "program") ? "admin" : "write";
    case "copy":
      return copyKind(tokens, dialect);
    case "create":
    case "alter":
    case "drop":
    case "rename":
      if (dialect === "mysql" && reachesElsewhere(tokens)) return "admin";
      return isAdminObject(tokens) ? "admin" : "ddl";
    case "truncate":
    case "comment":
    case "refresh":
      return "ddl";
    case "":
      return tokens.length === 0 ? "read" : "admin";
    default:
      return "admin";
  }
}

/** Most tokens from the beginning of a change to the kind of its object. */
const OBJECT_WITHIN = 12;

/** ALTER may have several changes, apart by commas. A foreign table may be a program of the server. */
function isAdminObject(tokens: readonly Token[]): boolean {
  if (tokens[1]?.text === "foreign") return true;
  let depth = 0;
  let from = 0;
  return tokens.some(({ kind, text }, at) => {
    if (kind === "sign") {
      depth += text === "(" ? 1 : text === ")" ? -1 : 0;
      if (text === "," && depth === 0) from = at;
    }
    return kind === "word" && at - from < OBJECT_WITHIN && ADMIN_OBJECTS.has(text);
  });
}

/**
 * MariaDB's `BEGIN NOT ATOMIC` is a program, and in its sql_mode ORACLE each
 * BEGIN with a statement behind it.
 */
function isProgram(tokens: readonly Token[], dialect: SqlDialect): boolean {
  if (tokens.some(({ text }) => text === "atomic")) return true;
  return dialect === "mysql" && tokens[0].text === "begin" && tokens.length > 1 &&
    (tokens.length > 2 || tokens[1].text !== "work");
}

const ENGINES = new Set(words.engines);

/** Tables of MySQL in files of the server's, or at another server. */
function reachesElsewhere(tokens: readonly Token[]): boolean {
  return tokens.some(({ kind, text }, at) => {
    if (kind !== "word") return false;
    if (text !== "engine") return words.elsewhere.includes(text);
    const value = tokens[at + 1]?.text === "=" ? tokens[at + 2] : tokens[at + 1];
    return !ENGINES.has(value?.value?.toLowerCase() ?? value?.text ?? "");
  });
}

/**
 * True for SELECT INTO, which makes a table. INSERT INTO below a WITH begins the statement or its
 * parenthesis; elsewhere `insert` is a name: `SELECT 1 insert INTO t`.
 */
function hasInto(tokens: readonly Token[]): boolean {
  let depth = 0;
  let hasQuery = false;
  return tokens.some(({ kind, text }, at) => {
    if (kind === "sign") depth += text === "(" ? 1 : text === ")" ? -1 : 0;
    if (kind !== "word") return false;
    hasQuery ||= depth === 0 && /^(?:select|values|table)$/.test(text);
    if (text !== "into") return false;
    const before = tokens[at - 1];
    const isInsert = before?.kind === "word" && /^(?:insert|merge)$/.test(before.text);
    return !isInsert || tokens[at - 2]?.text !== "(" && (depth > 0 || hasQuery);
  });
}

/** `PREPARE name (types) AS statement`. */
function preparedKind(tokens: readonly Token[]): StatementKind {
  const at = tokens.findIndex(({ kind, text }) => kind === "word" && text === "as");
  return at < 0 ? "admin" : innerKind(tokens.slice(at + 1), "postgres");
}

/** Options of PostgreSQL may stand in quotes: `EXPLAIN ("analyze")`. */
function isAnalyzed(tokens: readonly Token[]): boolean {
  return tokens.some(({ kind, text }) =>
    (kind === "word" || kind === "name") && (text === "analyze" || text === "analyse")
  );
}

/** `EXPLAIN ANALYZE` runs the statement, which begins with the first word that can begin one. */
function explainedKind(tokens: readonly Token[], dialect: SqlDialect): StatementKind {
  const at = tokens.findIndex(({ kind, text }, index) =>
    index > 0 && kind === "word" && words.explained.includes(text)
  );
  return at < 0 ? "admin" : innerKind(tokens.slice(at), dialect);
}

/** Statements that hold another one. */
const OUTER = new Set(["prepare", "explain", "analyze", "copy"]);

/** No server takes one of {@linkcode OUTER} in another; without end, they would take the host's memory. */
function innerKind(tokens: readonly Token[], dialect: SqlDialect): StatementKind {
  const first = tokens.find(({ text }) => text !== "(");
  return first?.kind === "word" && OUTER.has(first.text) ? "admin" : readStatement(tokens, dialect).kind;
}

/** `COPY table TO STDOUT` reads, `FROM STDIN` writes; files and programs are the server's. */
function copyKind(tokens: readonly Token[], dialect: SqlDialect): StatementKind {
  if (dialect !== "postgres") return "admin";
  let depth = 0;
  let direction: Token | undefined;
  let target: Token | undefined;
  tokens.forEach((token, index) => {
    if (token.text === "(" && token.kind === "sign") depth++;
    if (token.text === ")" && token.kind === "sign") depth--;
    const isDirection = depth === 0 && token.kind === "word" &&
      (token.text === "to" || token.text === "from");
    if (isDirection && !direction) [direction, target] = [token, tokens[index + 1]];
  });
  if (target?.kind !== "word") return "admin";
  if (direction?.text === "from") return target.text === "stdin" ? "write" : "admin";
  if (target.text !== "stdout") return "admin";
  return tokens[1]?.text === "(" ? innerKind(tokens.slice(2), dialect) : "read";
}

/** Settings of a session that change neither rights nor the meaning of statements. */
function isHarmlessSetting(tokens: readonly Token[]): boolean {
  const texts = tokens.slice(1).filter(({ text }) => text !== "session" && text !== "local");
  const [name, sign, value] = texts;
  if (name?.kind !== "word" || texts.some(({ text, kind }) => kind === "sign" && /[@,(:]/.test(text))) {
    return false;
  }
  if (name.text === "names") return texts.length === 2 && isPlainEncoding(sign?.value ?? sign?.text ?? "");
  if (name.text === "time" && sign?.text === "zone" || name.text === "transaction") return true;
  if (sign?.text !== "=" && sign?.text !== "to") return false;
  if (name.text === "client_encoding") {
    return texts.length === 3 && isPlainEncoding(value?.value ?? value?.text ?? "");
  }
  return HARMLESS_SETTINGS.has(name.text);
}

/**
 * True for an encoding in which no byte of ASCII is a part of another character: elsewhere quotes may hide.
 */
export function isPlainEncoding(name: string): boolean {
  return /^(?:utf-?8(?:mb[34])?|unicode|sql_ascii|ascii|binary|auto|latin-?[0-9]+|iso[-_]?8859[-_0-9]+|(?:win|windows-?)125[0-9])$/i
    .test(name);
}

// Fingerprints.

/** Words apart, `?` for each literal, and lists of literals as one. */
function fingerprintOf(tokens: readonly Token[]): string {
  let text = "";
  let before: Token | undefined;
  for (const token of tokens) {
    if (text.length > FINGERPRINT_MAX) return `${text.slice(0, FINGERPRINT_MAX)}…`;
    const joins = before?.kind === "sign" && (before.text === "(" || before.text === ".") ||
      token.kind === "sign" && /^[,;).]$/.test(token.text) || token.text === "(" && before?.kind !== "sign";
    text += (before && !joins ? " " : "") + (token.kind === "name" ? `"${token.text}"` : token.text);
    before = token;
  }
  return text.length > FINGERPRINT_MAX ? `${text.slice(0, FINGERPRINT_MAX)}…` : text;
}

// Lexer.

const SPACE = /[ \t\n\r\f\v\0]/;
const WORD_START = /[A-Za-z_\u0080-\uffff]/;
const WORD = /[A-Za-z0-9_$\u0080-\uffff]*/y;
const NUMBER =
  /0[xXoObB][0-9A-Fa-f_]+|[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?[0-9_]+)?|\.[0-9][0-9_]*(?:[eE][+-]?[0-9_]+)?/y;
/** A number that may begin a name of MySQL. */
const NAME_START = /^(?:0[xXbB].*|[0-9_]+)$/;
const DOLLAR_QUOTE = /\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$/y;
const PARAMETER = /\$[0-9]+/y;
/** A string in front of which this stands: its kind, or a set of characters. */
const STRING_PREFIX = /^(?:e|b|x|n|_[a-z0-9]+)$/;
/** Most characters of a string, and most tokens before it, where its value is kept. */
const VALUE_MAX = 32;
const VALUES_WITHIN = 8;
/** Most tokens before one whose case is kept. */
const NAMES_WITHIN = 4;

/** True behind `--` of MySQL, where a space, a control character or the end has to follow. */
function beginsComment(next: string): boolean {
  return next <= " " || next === "\x7f";
}

/**
 * True for a letter whose UTF-8 has the byte 0xA0: a space in latin1 and its like, so that a word may follow.
 */
function hidesSpace(word: string): boolean {
  return /[\u0080-\uffff]/.test(word) && new TextEncoder().encode(word).includes(0xa0);
}

/** Cuts a text into tokens. Tokens are shared: a statement of megabytes has few different ones. */
class Lexer {
  /** something could not be read, or a server may execute a comment */
  isUncertain = false;
  readonly #shared = new Map<string, Token>();
  #at = 0;
  #count = 0;
  /** place of the next line feed, or the text's end; below `#at` it is not known */
  #lineFeed = -1;
  /** the last token is a string with escapes, which the next string continues */
  #isEscaped = false;

  constructor(readonly text: string, readonly variant: Variant) {
    // In another encoding than UTF-8, or none, a quote may be a part of a character.
    if (text.includes("\ufffd")) this.isUncertain = true;
  }

  tokens(): Token[] {
    const tokens: Token[] = [];
    while (this.#at < this.text.length) {
      const token = this.#next();
      if (!token) continue;
      tokens.push(token);
      this.#count++;
    }
    return tokens;
  }

  #next(): Token | undefined {
    const { text, variant: { dialect, quotedNames, escapes } } = this;
    const at = this.#at;
    const char = text[at];
    const isMysql = dialect === "mysql";
    if (SPACE.test(char)) {
      // A NUL ends a text for some servers and not for others.
      if (char === "\0") this.isUncertain = true;
      return void this.#at++;
    }
    if (text.startsWith("--", at) && (!isMysql || beginsComment(text[at + 2] ?? ""))) {
      return this.#skipLine();
    }
    if (isMysql && char === "#") return this.#skipLine();
    if (text.startsWith("/*", at)) return this.#skipComment();
    const isEscaped = this.#isEscaped;
    this.#isEscaped = false;
    if (char === "'") {
      if (isEscaped) this.isUncertain = true;
      return this.#string(at + 1, "'", escapes);
    }
    if (char === '"') return quotedNames ? this.#name(at + 1, '"') : this.#string(at + 1, '"', escapes);
    if (isMysql && char === "`") return this.#name(at + 1, "`");
    if (!isMysql && char === "$") {
      const quote = this.#match(DOLLAR_QUOTE);
      if (quote !== undefined) return this.#dollarString(quote);
      const parameter = this.#match(PARAMETER);
      if (parameter !== undefined) return this.#share("literal", parameter);
    }
    if (/[0-9]/.test(char) || char === "." && /[0-9]/.test(text[at + 1] ?? "")) {
      const number = this.#match(NUMBER)!;
      // Names of MySQL may begin with digits, as `1st`; behind `1.` and `1e1` a word begins.
      if (isMysql && NAME_START.test(number)) this.#match(WORD);
      return this.#share("literal", "?");
    }
    // MariaDB's sql_mode MSSQL has names in brackets.
    if (isMysql && (char === "[" || char === "]")) this.isUncertain = true;
    if (!WORD_START.test(char)) return this.#share("sign", text[this.#at++]);
    const written = this.#match(WORD)!;
    const word = written.toLowerCase();
    if (isMysql && hidesSpace(word)) this.isUncertain = true;
    if (text[this.#at] === "'" && STRING_PREFIX.test(word)) {
      // E'…' has escapes whatever the settings.
      this.#isEscaped = !isMysql && word === "e";
      return this.#string(this.#at + 1, "'", this.#isEscaped || escapes);
    }
    // U&"…" writes letters as numbers.
    if (!isMysql && word === "u" && /^&["']/.test(text.slice(this.#at, this.#at + 2))) {
      this.isUncertain = true;
    }
    return this.#named("word", written);
  }

  /** A word or name, whose own case is kept near the beginning. */
  #named(kind: "word" | "name", written: string): Token {
    const text = written.toLowerCase();
    return this.#count < NAMES_WITHIN ? { kind, text, written } : this.#share(kind, text);
  }

  #share(kind: Token["kind"], text: string): Token {
    const key = kind + text;
    let token = this.#shared.get(key);
    if (!token) this.#shared.set(key, token = { kind, text });
    return token;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.text) ?? [];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #skipLine(): undefined {
    const { text } = this;
    // Lines that a carriage return ends have one line feed behind them all.
    if (this.#lineFeed < this.#at) {
      const found = text.indexOf("\n", this.#at);
      this.#lineFeed = found < 0 ? text.length : found;
    }
    const whole = this.#lineFeed;
    const length = text.slice(this.#at, whole).indexOf("\r");
    const isEarlier = length >= 0;
    const carriage = this.#at + length;
    // A carriage return ends a comment of PostgreSQL.
    if (isEarlier && this.variant.dialect === "mysql" && carriage + 1 < whole) this.isUncertain = true;
    this.#at = isEarlier && this.variant.dialect === "postgres" ? carriage : whole;
  }

  /** PostgreSQL's comments nest; MySQL executes some. */
  #skipComment(): undefined {
    const { text, variant: { dialect } } = this;
    if (dialect === "mysql" && /^\/\*(?:!|M!|m!|\+)/.test(text.slice(this.#at, this.#at + 4))) {
      this.isUncertain = true;
    }
    const mark = dialect === "postgres" ? /\/\*|\*\//g : /\*\//g;
    mark.lastIndex = this.#at + 2;
    for (let depth = 1; depth > 0;) {
      const found = mark.exec(text);
      if (!found) {
        this.isUncertain = true;
        this.#at = text.length;
        return;
      }
      depth += found[0] === "/*" ? 1 : -1;
    }
    this.#at = mark.lastIndex;
  }

  #string(from: number, quote: string, escapes: boolean): Token {
    const { text } = this;
    for (let at = from; at < text.length; at++) {
      if (escapes && text[at] === "\\") at++;
      else if (text[at] === quote) {
        if (text[at + 1] !== quote) {
          this.#at = at + 1;
          const isKept = this.#count < VALUES_WITHIN && at - from <= VALUE_MAX;
          return isKept
            ? { kind: "literal", text: "?", value: text.slice(from, at) }
            : this.#share("literal", "?");
        }
        at++;
      }
    }
    return this.#unended();
  }

  #name(from: number, quote: string): Token {
    const { text } = this;
    for (let at = from; at < text.length; at++) {
      if (text[at] !== quote) continue;
      if (text[at + 1] !== quote) {
        this.#at = at + 1;
        return this.#named("name", text.slice(from, at).replaceAll(quote + quote, quote));
      }
      at++;
    }
    return this.#unended();
  }

  #dollarString(quote: string): Token {
    const end = this.text.indexOf(quote, this.#at);
    if (end < 0) return this.#unended();
    this.#at = end + quote.length;
    return this.#share("literal", "?");
  }

  #unended(): Token {
    this.isUncertain = true;
    this.#at = this.text.length;
    return this.#share("literal", "?");
  }
}
