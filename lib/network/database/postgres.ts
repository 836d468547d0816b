/**
 * One connection of a guest to a PostgreSQL server, logged in by the host. Messages pass
 * unchanged in both directions; each statement is decided on before it is sent, and a refused one
 * is answered as the server would.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import { ignore } from "../../base/error/mod.ts";
import type { Draft, Gate, Passage } from "../../policy/mod.ts";
import { guestLine } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import type { RelayedBytes } from "../relay.ts";
import { ConnectionEnd } from "./access.ts";
import {
  DATA_MESSAGE_MAX,
  PENDING_MAX,
  PREPARED_NAME_MAX,
  SERVER_LOGIN_MAX,
  STATEMENT_MAX,
} from "./limit.ts";
import { SecretMask } from "./mask.ts";
import {
  errorFields,
  errorMessage,
  HEAD,
  message,
  type MessageHead,
  nextHead,
  SYNC,
  takeMessage,
  textAt,
  utf8,
} from "./postgres_message.ts";
import { type Prepared, PreparedNames } from "./postgres_prepared.ts";
import { DatabaseTurn } from "./postgres_turn.ts";
import { isPlainEncoding, type Reading, readSql } from "./statement.ts";

/** Longest name of a statement or portal in front of the data of a Bind, in `bytes`. */
const NAMES_MAX = 64 * 1024;
/** Longest message without data or a text, in `bytes`. */
const SMALL_MAX = 64 * 1024;
/** Longest piece of a message that streams, in `bytes`. */
const PIECE_MAX = 128 * 1024;

/** Advice for a client in another encoding. */
export const SET_UTF8 = "set PGCLIENTENCODING=UTF8";

export interface PostgresRelayOptions {
  client: BufferedConnection;
  server: BufferedConnection;
  gate: Gate;
  draft(reading: Reading, bytes: number): Draft;
  password: string;
  moved: RelayedBytes;
  idleMs: number;
  /** time in `ms` for the last words to a client */
  closeMs: number;
  /** keys by which a CancelRequest names this connection */
  onKey(key: string): void;
}

export class PostgresRelay {
  readonly #options: PostgresRelayOptions;
  readonly #names = new PreparedNames();
  /** turns without their ReadyForQuery, the oldest first; the login is the first */
  readonly #turns: DatabaseTurn[] = [new DatabaseTurn("login")];
  /** the client is in the middle of a turn of the extended protocol */
  #open?: DatabaseTurn;
  /** a statement of the open turn was refused: the rest of it is dropped */
  #isSkipping = false;
  /** the server waits for data of the client */
  #isCopyingIn = false;
  readonly #mask: SecretMask;
  /** the client has got whole messages only */
  #isWhole = true;
  #ended?: ConnectionEnd;
  #out: Uint8Array[] = [];
  #over = false;

  constructor(options: PostgresRelayOptions) {
    this.#options = options;
    this.#mask = new SecretMask(options.password);
  }

  /** Relays until either side ends. @throws the error that ended it */
  async run(): Promise<void> {
    const { client, server } = this.#options;
    let failure: unknown;
    const end = (error?: unknown) => {
      if (!this.#over) failure = this.#ended ?? error;
      this.#over = true;
    };
    const fromServer = this.#readServer().then(() => end(), end);
    // The server ends its side when the client has; one that a fault of the client
    // ended has nothing more to say.
    const fromClient = this.#readClient().then(() => server.closeWrite(), end);
    try {
      await Promise.race([fromServer, fromClient.then(() => failure === undefined ? fromServer : undefined)]);
      server.close();
      // A client that does not read would keep the server's side in its write.
      if (failure instanceof ConnectionEnd) client.deadline.set(this.#options.closeMs);
      else if (failure !== undefined) client.close();
      await fromServer;
      if (failure instanceof ConnectionEnd && this.#isWhole && !client.closed) {
        const { state, message, hint } = failure;
        await client.write(errorMessage("FATAL", state, message, hint)).catch(ignore("the client is gone"));
      }
    } finally {
      // A client that still waits for an answer gets none.
      client.close();
      await fromClient;
      for (const turn of this.#turns) turn.abandon("the connection ended");
      server.close();
    }
    if (failure !== undefined) throw failure;
  }

  /** Ends the connection, which tells the client why. */
  end(reason: ConnectionEnd): void {
    this.#ended ??= reason;
    this.#options.server.close();
  }

  #keepAlive(): void {
    const { client, server, idleMs } = this.#options;
    client.deadline.set(idleMs);
    server.deadline.set(idleMs);
  }

  // From the client.

  async #readClient(): Promise<void> {
    const { client } = this.#options;
    while (true) {
      if (client.count < HEAD) await this.#flush();
      const head = await nextHead(client);
      if (!head) break;
      this.#keepAlive();
      if (!await this.#readMessage(head)) break;
    }
    await this.#flush();
  }

  /** @returns false for the client's last message */
  async #readMessage(head: MessageHead): Promise<boolean> {
    const { client } = this.#options;
    const { type } = head;
    if (this.#isCopyingIn && !"dcfH".includes(type)) {
      throw new MessageFault(`a message ${type} in the middle of a COPY`);
    }
    switch (type) {
      case "Q":
      case "F": {
        if (this.#open) throw new MessageFault("a query in the middle of a turn of the extended protocol");
        const whole = await takeMessage(client, head, STATEMENT_MAX);
        await this.#simple(type, whole);
        return true;
      }
      case "P":
        await this.#parse(await takeMessage(client, head, STATEMENT_MAX));
        return true;
      case "B":
        await this.#bind(head);
        return true;
      case "E":
        await this.#execute(await takeMessage(client, head, SMALL_MAX));
        return true;
      case "D":
      case "C": {
        const whole = await takeMessage(client, head, SMALL_MAX);
        const [name] = textAt(whole, HEAD + 1);
        const turn = this.#turn();
        if (type === "C") {
          if (whole[HEAD] === 0x50) this.#names.closePortal(name);
          turn.closes.push(whole[HEAD] === 0x53 ? name : undefined);
        }
        this.#send(whole);
        return true;
      }
      case "S":
        await this.#sync(await takeMessage(client, head, SMALL_MAX));
        return true;
      case "H":
        this.#send(await takeMessage(client, head, SMALL_MAX));
        return true;
      case "c":
      case "f":
        this.#send(await takeMessage(client, head, SMALL_MAX));
        this.#isCopyingIn = false;
        return true;
      case "d":
        await this.#stream(head);
        return true;
      case "X":
        this.#send(await takeMessage(client, head, SMALL_MAX), true);
        return false;
      default:
        throw new MessageFault("a message of a type that a client has not");
    }
  }

  /** A Query, or a FunctionCall, whose function is a number that may do anything. */
  async #simple(type: string, whole: Uint8Array<ArrayBuffer>): Promise<void> {
    const reading: Reading = type === "F"
      ? { kind: "admin", command: "FUNCTION", fingerprint: "function call" }
      : readSql(queryText(whole), "postgres");
    const passage = await this.#decide(reading, whole.length - HEAD);
    const turn = this.#begin("simple");
    if (passage.allowed) {
      turn.step(passage);
      this.#send(whole);
    } else {
      // The server's ReadyForQuery says how the transaction stands.
      turn.refusal = refusalOf(passage);
      this.#send(SYNC);
    }
  }

  async #parse(whole: Uint8Array<ArrayBuffer>): Promise<void> {
    const turn = this.#turn();
    if (this.#isSkipping) return;
    const [name, from] = textAt(whole, HEAD);
    const [, end] = textAt(whole, from);
    const read = readSql(utf8(whole.subarray(from, end - 1)), "postgres");
    const reading = name === "" ? read : { ...read, prepared: name.slice(0, PREPARED_NAME_MAX) };
    const passage = await this.#decide(reading, end - from);
    if (!passage.allowed) return this.#refuse(turn, passage);
    const prepared: Prepared = { reading, bytes: end - from, passage };
    this.#names.parse(name, prepared);
    turn.parse(name, prepared);
    this.#send(whole);
  }

  /** Bind has values of any length behind two names. */
  async #bind(head: MessageHead): Promise<void> {
    const { client } = this.#options;
    const turn = this.#turn();
    let names: [string, number] | undefined;
    while (!names) {
      const seen = client.unread.subarray(HEAD, HEAD + Math.min(head.length, NAMES_MAX));
      const second = seen.indexOf(0, seen.indexOf(0) + 1);
      if (seen.includes(0) && second >= 0) names = textAt(seen, 0);
      else if (seen.length >= Math.min(head.length, NAMES_MAX)) {
        throw new MessageFault("a Bind without its names");
      } else if (!await client.fill()) throw new MessageFault("half a message");
    }
    const [portal, from] = names;
    const [name] = textAt(client.unread.subarray(HEAD), from);
    if (!this.#isSkipping) this.#names.bind(portal, name, turn, turn.prepared(name));
    await this.#stream(head);
  }

  async #execute(whole: Uint8Array<ArrayBuffer>): Promise<void> {
    const turn = this.#turn();
    if (this.#isSkipping) return;
    const [name] = textAt(whole, HEAD);
    const portal = this.#names.portal(name);
    const { prepared } = portal;
    const before = turn.passageOf(prepared);
    if (before) turn.step(before);
    else if (portal.isRunning) turn.step(undefined);
    else {
      const passage = await this.#decide(prepared.reading, prepared.bytes);
      if (!passage.allowed) return this.#refuse(turn, passage);
      turn.add(prepared, passage);
      turn.step(passage);
    }
    portal.isRunning = true;
    this.#send(whole);
  }

  async #sync(whole: Uint8Array): Promise<void> {
    if (!this.#open) this.#begin("extended");
    this.#open = undefined;
    this.#isSkipping = false;
    this.#send(whole, true);
    await this.#flush();
  }

  /** @throws {ConnectionEnd} where the server would keep earlier statements of the turn */
  #refuse(turn: DatabaseTurn, passage: Passage): void {
    if (turn.hasSteps) {
      throw new ConnectionEnd(
        "42501",
        guestLine(passage.decision),
        "the statements before it in the turn are undone",
      );
    }
    turn.refusal = refusalOf(passage);
    this.#isSkipping = true;
  }

  /** The open turn of the extended protocol. */
  #turn(): DatabaseTurn {
    return this.#open ??= this.#begin("extended");
  }

  #begin(kind: DatabaseTurn["kind"]): DatabaseTurn {
    if (this.#turns.length >= PENDING_MAX) {
      throw new MessageFault("too many statements that wait for answers");
    }
    const turn = new DatabaseTurn(kind);
    this.#turns.push(turn);
    return turn;
  }

  /** Decides on a statement. A client that goes away ends the wait for a person. */
  async #decide(reading: Reading, bytes: number): Promise<Passage> {
    const { client, gate, draft } = this.#options;
    const gone = new AbortController();
    await this.#flush();
    return await gate.decide(draft(reading, bytes), gone.signal, () => {
      client.deadline.off();
      client.listen(() => gone.abort());
    }).finally(() => {
      client.unlisten();
      this.#keepAlive();
    });
  }

  /** Queues a message for the server. @param always also while a turn is skipped */
  #send(bytes: Uint8Array, always = false): void {
    if (this.#isSkipping && !always) return;
    this.#options.moved.sent += bytes.length;
    this.#out.push(bytes);
  }

  async #flush(): Promise<void> {
    if (this.#out.length === 0) return;
    const out = this.#out;
    this.#out = [];
    const { server } = this.#options;
    await server.write(joinBytes(out));
  }

  /** Passes a message with data, which may be long. */
  async #stream({ length }: MessageHead): Promise<void> {
    const { client } = this.#options;
    if (length > DATA_MESSAGE_MAX) throw new MessageFault("a message that is too long");
    for (let left = HEAD + length; left > 0;) {
      if (client.count === 0) {
        await this.#flush();
        if (!await client.fill()) throw new MessageFault("half a message");
        this.#keepAlive();
      }
      const piece = client.unread.slice(0, Math.min(left, PIECE_MAX));
      client.skip(piece.length);
      left -= piece.length;
      this.#send(piece);
      if (left > 0) await this.#flush();
    }
  }

  // From the server.

  async #readServer(): Promise<void> {
    const { server } = this.#options;
    while (true) {
      const head = await nextHead(server);
      if (!head) return;
      this.#keepAlive();
      await this.#readAnswer(head);
    }
  }

  async #readAnswer(head: MessageHead): Promise<void> {
    const { server, moved } = this.#options;
    const { type, length } = head;
    if (length > DATA_MESSAGE_MAX) throw new MessageFault("a message that is too long");
    const turn: DatabaseTurn | undefined = this.#turns[0];
    moved.received += HEAD + length;
    turn?.received(HEAD + length);
    if (!"EKZSs13CIGW".includes(type)) return await this.#pass(head);
    const whole = await takeMessage(server, head, type === "E" ? STATEMENT_MAX : SERVER_LOGIN_MAX);
    switch (type) {
      case "E":
        turn?.fail(errorFields(whole.subarray(HEAD)).get("C") ?? "");
        this.#isCopyingIn = false;
        break;
      case "S":
        this.#requireEncoding(whole);
        break;
      case "K":
        this.#options.onKey(whole.subarray(HEAD).toHex());
        break;
      case "1": {
        const parse = turn?.parses.shift();
        if (parse) this.#names.accepted(parse.name, parse.prepared);
        break;
      }
      case "3": {
        const name = turn?.closes.shift();
        if (name !== undefined) this.#names.closed(name);
        break;
      }
      case "C":
      case "I":
      case "s":
        this.#isCopyingIn = false;
        turn?.done();
        break;
      case "G":
        // The server drops a Sync in the middle of it, so that its answers would no longer fit the turns.
        if (turn?.kind !== "simple" || this.#turns.length > 1) {
          throw new ConnectionEnd(
            "0A000",
            "COPY FROM STDIN has to be a simple query, with nothing sent behind it",
          );
        }
        this.#isCopyingIn = true;
        break;
      case "W":
        throw new MessageFault("a replication of the server");
      case "Z":
        return await this.#ready(whole);
    }
    await this.#write(this.#mask.push(whole.subarray(HEAD), true), head);
  }

  /** A setting of the server for this role may change how it reads texts. @throws {ConnectionEnd} */
  #requireEncoding(whole: Uint8Array): void {
    const [name, from] = textAt(whole, HEAD);
    const [value] = textAt(whole, from);
    if (name !== "client_encoding" || isPlainEncoding(value)) return;
    throw new ConnectionEnd("0A000", `sbx cannot read statements in ${value.slice(0, 32)}`, SET_UTF8);
  }

  /** ReadyForQuery: the end of a turn, and the place for the answer to a refused statement. */
  async #ready(whole: Uint8Array): Promise<void> {
    const turn = this.#turns.shift();
    if (!turn) throw new MessageFault("an answer that nothing asked for");
    this.#isCopyingIn = false;
    for (const { name, prepared } of turn.parses) this.#names.failed(name, prepared);
    if (whole[HEAD] === 0x49) this.#names.endTransaction(this.#turns);
    const { client } = this.#options;
    if (turn.refusal && !turn.hasFailed) await client.write(turn.refusal);
    turn.end();
    await client.write(whole);
  }

  /** Passes a message of the server without reading it, but for the password in it. */
  async #pass({ type, length }: MessageHead): Promise<void> {
    const { client, server } = this.#options;
    if (length <= PIECE_MAX) {
      const whole = await takeMessage(server, { type, length }, PIECE_MAX);
      return await this.#write(this.#mask.push(whole.subarray(HEAD), true), { type, length });
    }
    this.#isWhole = false;
    await client.write(server.unread.slice(0, HEAD));
    server.skip(HEAD);
    for (let left = length; left > 0;) {
      if (server.count === 0 && !await server.fill()) throw new MessageFault("half a message");
      this.#keepAlive();
      const piece = server.unread.subarray(0, Math.min(left, PIECE_MAX));
      left -= piece.length;
      const passing = this.#mask.push(piece, left === 0);
      if (passing.length > 0) await client.write(passing);
      server.skip(piece.length);
    }
    this.#isWhole = true;
  }

  async #write(body: Uint8Array, { type }: MessageHead): Promise<void> {
    this.#isWhole = false;
    await this.#options.client.write(message(type, body));
    this.#isWhole = true;
  }
}

/** The text of a Query: one text and its end. @throws {MessageFault} */
function queryText(whole: Uint8Array): string {
  const end = whole.indexOf(0, HEAD);
  // What stands behind the end is for the server to refuse, which does.
  if (end < 0 || end !== whole.length - 1) throw new MessageFault("a query without its end");
  return utf8(whole.subarray(HEAD, end));
}

function refusalOf({ decision }: Passage): Uint8Array {
  return errorMessage("ERROR", "42501", guestLine(decision));
}
