/**
 * Commands of a guest at a MySQL server, after the login. One is answered before the next is read; each
 * statement is decided on before it is sent, and a refused one is answered as the server would.
 */
import mysql from "./mysql.json" with { type: "json" };
import { ignore } from "../../base/error/mod.ts";
import { type Draft, type Gate, guestLine, type Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import type { RelayedBytes } from "../relay.ts";
import { ConnectionEnd } from "./access.ts";
import { DATA_MESSAGE_MAX, PREPARED_MAX, STATEMENT_MAX } from "./limit.ts";
import { type Answer, AnswerRelay, type AnswerShape } from "./mysql_answer.ts";
import {
  decode,
  errorPacket,
  need,
  nextPacket,
  PACKET_HEAD,
  PACKET_MAX,
  PacketReader,
  STATUS,
} from "./mysql_packet.ts";
import type { NameReading } from "./mysql_names.ts";
import { type Reading, readSql } from "./statement.ts";

/** Longest piece of a command that streams, in `bytes`. */
const PIECE_MAX = 128 * 1024;
/** Number of the last prepared statement, for MariaDB. */
const LAST = 0xffff_ffff;
/** Commands with values of any length behind the number of a statement. */
const STREAMED = new Set(["STMT_EXECUTE", "STMT_BULK_EXECUTE", "STMT_SEND_LONG_DATA"]);

const COMMANDS: Readonly<Record<string, { name: string; answer: string } | undefined>> = mysql.commands;

export interface MysqlRelayOptions {
  client: BufferedConnection;
  server: BufferedConnection;
  gate: Gate;
  /** @param name the database that the statement is for */
  draft(reading: Reading, bytes: number, name: string): Draft;
  password: string;
  moved: RelayedBytes;
  idleMs: number;
  hasNoEof: boolean;
  /** the server's flags in its OK */
  status: number;
  /** the server may read text in another encoding */
  isForeign: boolean;
  /** the only database of the credential */
  only: string | undefined;
  /** the server's rule for comparing names of databases */
  nameOf: NameReading;
  /** that the client named at its login */
  database: string;
  /** logs in again. @returns the packet for the client */
  changeUser(body: Uint8Array): Promise<{ packets: Uint8Array; status: number; database: string }>;
}

interface Prepared {
  reading: Reading;
  bytes: number;
}

export class MysqlRelay {
  readonly #options: MysqlRelayOptions;
  readonly #answers: AnswerRelay;
  readonly #prepared = new Map<number, Prepared>();
  #last?: Prepared;
  /** the decision on a PREPARE, which the EXECUTE right behind it needs no other for */
  #fresh?: { prepared: Prepared; passage: Passage; answer: Answer };
  /** a statement may have changed how the server reads bytes beyond ASCII */
  #isForeign: boolean;
  /** the current database */
  #database: string;
  /** the client waits for nothing */
  #isIdle = false;
  #ended?: ConnectionEnd;

  constructor(options: MysqlRelayOptions) {
    this.#options = options;
    this.#isForeign = options.isForeign;
    this.#database = options.database;
    const { client, server, moved, password, hasNoEof, status } = options;
    this.#answers = new AnswerRelay(
      client,
      server,
      moved,
      password,
      hasNoEof,
      status,
      () => this.#keepAlive(),
    );
  }

  /** Number of the packet for a last error of the client; `undefined` in the middle of one. */
  get sequence(): number | undefined {
    return this.#answers.sequence;
  }

  /** Relays until either side ends. @throws the error that ended it */
  async run(): Promise<void> {
    try {
      while (await this.#command());
    } catch (error) {
      throw this.#ended ?? error;
    } finally {
      this.#finishFresh();
    }
    if (this.#ended) throw this.#ended;
  }

  /** Ends the connection with an error for the client. */
  end(reason: ConnectionEnd): void {
    const { client, server } = this.#options;
    this.#ended ??= reason;
    server.close();
    if (!this.#isIdle) return;
    const last = errorPacket(0, ...codeOf(reason), reason.message);
    client.write(last).catch(ignore("the client is gone")).finally(() => client.close());
  }

  #keepAlive(): void {
    const { client, server, idleMs } = this.#options;
    client.deadline.set(idleMs);
    server.deadline.set(idleMs);
  }

  /** @returns false at the end */
  async #command(): Promise<boolean> {
    const { client, server } = this.#options;
    this.#keepAlive();
    this.#isIdle = true;
    server.listen(() => client.close());
    const head = await nextPacket(client).finally(() => {
      server.unlisten();
      this.#isIdle = false;
    });
    if (this.#ended) return false;
    // A server that ends an idle connection may say why.
    if (server.count > 0) {
      await this.#answers.last();
      return false;
    }
    if (!head) return false;
    if (head.sequence !== 0) throw new MessageFault("a packet out of order");
    if (head.length === 0) throw new MessageFault("an empty command");
    this.#answers.sequence = 1;
    await need(client, PACKET_HEAD + 1);
    const code = client.unread[PACKET_HEAD];
    const { name, answer } = COMMANDS[code] ?? {};
    if (name !== undefined && STREAMED.has(name)) {
      await this.#execute(name, head.length);
      return true;
    }
    if (head.length > STATEMENT_MAX) {
      throw new ConnectionEnd(
        "54000",
        `a statement has more than ${STATEMENT_MAX} bytes, which sbx does not relay`,
      );
    }
    await need(client, PACKET_HEAD + head.length);
    const whole = client.unread.slice(0, PACKET_HEAD + head.length);
    client.skip(whole.length);
    return await this.#whole(name, answer as AnswerShape, whole);
  }

  async #whole(
    name: string | undefined,
    answer: AnswerShape,
    whole: Uint8Array<ArrayBuffer>,
  ): Promise<boolean> {
    const body = whole.subarray(PACKET_HEAD);
    this.#finishFresh();
    switch (name) {
      case "QUIT":
        await this.#send(whole);
        return false;
      case "QUERY":
        await this.#statement(whole, answer, this.#read(body.subarray(1)));
        return true;
      case "STMT_PREPARE":
        await this.#prepare(whole, this.#read(body.subarray(1)));
        return true;
      case "INIT_DB": {
        const uses = decode(body.subarray(1));
        await this.#statement(whole, answer, { ...quoted("USE", "use", uses), uses });
        return true;
      }
      case "FIELD_LIST":
        await this.#statement(
          whole,
          answer,
          quoted("SHOW", "show columns from", new PacketReader(body, 1).text()),
        );
        return true;
      case "PROCESS_INFO":
        await this.#statement(whole, answer, readSql("SHOW PROCESSLIST", "mysql"));
        return true;
      case "PROCESS_KILL":
        await this.#statement(whole, answer, readSql("KILL 1", "mysql"));
        return true;
      case "STMT_CLOSE":
        this.#prepared.delete(new PacketReader(body, 1).uint(4));
        break;
      case "RESET_CONNECTION":
        this.#forget();
        break;
      case "CHANGE_USER":
        this.#forget();
        await this.#changeUser(body);
        return true;
      case "STATISTICS":
      case "PING":
      case "STMT_RESET":
      case "SET_OPTION":
      case "STMT_FETCH":
        break;
      default:
        await this.#refuse(1047, "08S01", `sbx relays no command ${body[0]}: policy could not decide on it`);
        return true;
    }
    await this.#send(whole);
    await this.#answer(answer);
    return true;
  }

  async #changeUser(body: Uint8Array): Promise<void> {
    const { packets, status, database } = await this.#options.changeUser(body);
    this.#database = database;
    this.#answers.sequence = undefined;
    this.#answers.status = status;
    await this.#options.client.write(packets);
    this.#answers.sequence = 0;
  }

  /**
   * A text of SQL. Where the encoding is not sure, bytes beyond ASCII may be
   * other characters, and hide quotes.
   */
  #read(bytes: Uint8Array): Reading {
    const escapes = (this.#answers.status & STATUS.NO_BACKSLASH_ESCAPES) === 0;
    const reading = readSql(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes), "mysql", escapes);
    const isSure = !this.#isForeign || bytes.every((byte) => byte < 0x80);
    return isSure ? reading : { ...reading, kind: "admin" };
  }

  async #statement(whole: Uint8Array, shape: AnswerShape, written: Reading): Promise<void> {
    const reading = await this.#chosen(written);
    if (!reading) return;
    const passage = await this.#decide(reading, whole.length - PACKET_HEAD - 1);
    if (!passage.allowed) return await this.#refusePassage(passage);
    // SET NAMES, also in a procedure, or by a statement in a variable.
    if (reading.kind === "admin") this.#isForeign = true;
    await this.#send(whole);
    await this.#finish(passage, () => this.#run(shape, reading));
  }

  /** Relays the answer of a statement, which may have chosen a database. */
  async #run(shape: AnswerShape, { uses }: Reading): Promise<Answer> {
    const given = await this.#answer(shape);
    if (uses !== undefined && given.error === undefined) this.#database = uses;
    return given;
  }

  /**
   * Reads the name in a choice of a database as the server does. Another database than the credential's is
   * refused, and one that cannot be read.
   *
   * @returns `undefined` after a refusal
   */
  async #chosen(written: Reading): Promise<Reading | undefined> {
    const { only, nameOf } = this.#options;
    const { command, uses: name } = written;
    if (command !== "USE") return written;
    const uses = name === undefined ? undefined : nameOf(name);
    if (name !== undefined && uses === undefined) {
      await this.#refuse(1044, "42000", unsureName(name));
      return undefined;
    }
    if (only === undefined || uses !== undefined && uses === nameOf(only)) {
      return { ...written, ...(uses !== undefined && { uses }) };
    }
    const other = name === undefined ? "one that other text hides" : `"${name.slice(0, 64)}"`;
    await this.#refuse(1044, "42000", `the credential is for the database "${only}", not for ${other}`);
    return undefined;
  }

  async #prepare(whole: Uint8Array, written: Reading): Promise<void> {
    const bytes = whole.length - PACKET_HEAD - 1;
    this.#last = undefined;
    // MariaDB prepares USE too.
    const reading = await this.#chosen(written);
    if (!reading) return;
    const passage = await this.#decide(reading, bytes);
    if (!passage.allowed) return await this.#refusePassage(passage);
    await this.#send(whole);
    const prepared = { reading, bytes };
    let answer: Answer;
    try {
      answer = await this.#answer("prepared");
    } catch (error) {
      this.#abandon(passage);
      throw error;
    }
    if (answer.prepared === undefined) {
      passage.finish({ response: responseOf(answer) });
      return;
    }
    this.#prepared.set(answer.prepared, prepared);
    // A forgotten one counts as unknown.
    if (this.#prepared.size > PREPARED_MAX) this.#prepared.delete(this.#prepared.keys().next().value!);
    this.#last = prepared;
    this.#fresh = { prepared, passage, answer };
  }

  /** A command with the number of a statement, and values that may be long. */
  async #execute(name: string, length: number): Promise<void> {
    const { client } = this.#options;
    if (length < 5) throw new MessageFault("a command that is cut short");
    await need(client, PACKET_HEAD + 5);
    const id = new PacketReader(client.unread.subarray(PACKET_HEAD + 1)).uint(4);
    // Values for the statement, before it runs.
    if (name === "STMT_SEND_LONG_DATA") return await this.#stream();
    const prepared = (id === LAST ? this.#last : this.#prepared.get(id)) ?? UNKNOWN;
    let passage: Passage;
    if (this.#fresh?.prepared === prepared) {
      ({ passage } = this.#fresh);
      this.#fresh = undefined;
    } else {
      this.#finishFresh();
      passage = await this.#decide(prepared.reading, prepared.bytes);
    }
    if (!passage.allowed) {
      await this.#stream(false);
      return await this.#refusePassage(passage);
    }
    if (prepared.reading.kind === "admin") this.#isForeign = true;
    await this.#finish(passage, async () => {
      await this.#stream();
      return await this.#run("results", prepared.reading);
    });
  }

  /** Passes a command that may have several packets. @param isSent absent: it is read and dropped */
  async #stream(isSent = true): Promise<void> {
    const { client, server, moved } = this.#options;
    let total = 0;
    for (let sequence = 0;; sequence++) {
      const head = await nextPacket(client);
      if (!head) throw new MessageFault("half a command");
      if (head.sequence !== (sequence & 0xff)) throw new MessageFault("a packet out of order");
      total += head.length;
      if (total > DATA_MESSAGE_MAX) throw new MessageFault("a command that is too long");
      for (let left = PACKET_HEAD + head.length; left > 0;) {
        if (client.count === 0 && !await client.fill()) throw new MessageFault("half a command");
        this.#keepAlive();
        const piece = client.unread.subarray(0, Math.min(left, PIECE_MAX));
        left -= piece.length;
        if (isSent) {
          moved.sent += piece.length;
          await server.write(piece);
        }
        client.skip(piece.length);
      }
      if (head.length < PACKET_MAX) {
        this.#answers.sequence = sequence + 1;
        return;
      }
    }
  }

  async #send(whole: Uint8Array): Promise<void> {
    const { server, moved } = this.#options;
    moved.sent += whole.length;
    await server.write(whole);
  }

  /** Relays an answer; a client that goes away ends it. */
  async #answer(shape: AnswerShape): Promise<Answer> {
    const { client, server } = this.#options;
    client.listen(() => server.close());
    try {
      return await this.#answers.relay(shape);
    } finally {
      client.unlisten();
    }
  }

  async #finish(passage: Passage, run: () => Promise<Answer>): Promise<void> {
    try {
      passage.finish({ response: responseOf(await run()) });
    } catch (error) {
      this.#abandon(passage);
      throw error;
    }
  }

  #abandon(passage: Passage): void {
    passage.finish({ response: responseOf(this.#answers.answer), error: "the connection ended" });
  }

  /** Records the end of a statement that was prepared and not run. */
  #finishFresh(): void {
    const fresh = this.#fresh;
    this.#fresh = undefined;
    fresh?.passage.finish({ response: responseOf(fresh.answer) });
  }

  #forget(): void {
    this.#prepared.clear();
    this.#last = undefined;
  }

  /** Decides on a statement. A client that goes away ends the wait for a person. */
  async #decide(reading: Reading, bytes: number): Promise<Passage> {
    const { client, gate, draft } = this.#options;
    const gone = new AbortController();
    return await gate.decide(draft(reading, bytes, reading.uses ?? this.#database), gone.signal, () => {
      client.deadline.off();
      this.#options.server.deadline.off();
      client.listen(() => gone.abort());
    }).finally(() => {
      client.unlisten();
      this.#keepAlive();
    });
  }

  async #refusePassage({ decision }: Passage): Promise<void> {
    await this.#refuse(1227, "42000", guestLine(decision));
  }

  async #refuse(code: number, state: string, text: string): Promise<void> {
    await this.#options.client.write(errorPacket(this.#answers.sequence ?? 1, code, state, text));
    this.#answers.sequence = 0;
  }
}

/** Why a name is not used. */
export function unsureName(name: string): string {
  return `sbx cannot see which database the server takes "${
    name.slice(0, 64)
  }" for: write its name in lower case`;
}

const UNKNOWN: Prepared = {
  reading: { kind: "admin", command: "EXECUTE", fingerprint: "execute ?" },
  bytes: 0,
};

function responseOf({ bytes, error }: Answer): { bytes: number; error?: string } {
  return { bytes, ...(error !== undefined && { error }) };
}

/** A command whose name of a table or database is no text of SQL. */
function quoted(command: string, words: string, name: string): Reading {
  return { kind: "read", command, fingerprint: `${words} "${name.slice(0, 64)}"` };
}

/** Numbers of errors and states of MySQL, by the states of {@linkcode ConnectionEnd}. */
export function codeOf({ state }: ConnectionEnd): [code: number, state: string] {
  switch (state) {
    case "28000":
      return [1045, "28000"];
    case "42501":
      return [1227, "42000"];
    case "0A000":
      return [1235, "42000"];
    case "54000":
      return [1153, "08S01"];
    case "57P01":
      return [1053, "08S01"];
    default:
      return [1105, "HY000"];
  }
}

/** True for a collation whose bytes of ASCII are always characters of their own. */
export function isPlainCollation(id: number): boolean {
  return mysql.plain_collations.some(([from, to]) => id >= from && id <= to);
}
