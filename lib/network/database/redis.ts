/**
 * One connection of a guest to a Redis server, logged in by the host. Commands pass unchanged, but for the
 * ones that log in; each is decided on before it is sent.
 */
import { asSbxError, ignore } from "../../base/error/mod.ts";
import { type Decision, guestLine, type Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { errorText } from "../exchange/response_relay.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { DatabaseAccount } from "../interface/mod.ts";
import { type RelayedBytes, relayedBytes } from "../relay.ts";
import { ConnectionEnd, DatabaseAccess } from "./access.ts";
import type { DatabaseClient } from "./client.ts";
import { statementDraft } from "./event.ts";
import { ANSWER_LINE_MAX, PENDING_MAX } from "./limit.ts";
import { SecretMask } from "./mask.ts";
import {
  BULK_MARKS,
  commandBytes,
  CommandReader,
  nextLine,
  readCommand,
  readHello,
  type RedisCommand,
} from "./redis_command.ts";

/** User of a server's password without a name. */
const DEFAULT_USER = "default";
/** First byte of TLS. */
const TLS_HANDSHAKE = 0x16;
/** Longest piece of an answer that streams, in `bytes`. */
const PIECE_MAX = 128 * 1024;
/** Commands after which a connection is another one: unauthenticated, or a stream of replication. */
const ENDING = new Set(["RESET", "SYNC", "PSYNC", "REPLCONF"]);

export class RedisConnection {
  readonly #context: ExchangeContext;
  readonly #client: DatabaseClient;
  readonly #access: DatabaseAccess;
  #connection: BufferedConnection;
  /**
   * refusals by the command that took the place of the refused one: the server's error
   * is their place among the answers
   */
  readonly #refusals = new Map<string, string>();
  #ended?: ConnectionEnd;
  #database = "0";

  constructor(context: ExchangeContext, client: DatabaseClient) {
    this.#context = context;
    this.#client = client;
    this.#access = new DatabaseAccess(context, client, "redis");
    this.#connection = client.connection;
  }

  async serve(): Promise<Decision | undefined> {
    try {
      if (!await this.#begin()) return undefined;
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      return this.#access.refuse("guard-relay", `the connection has ${error.reason}`);
    }
    const passage = await this.#access.decide(this.#connection);
    const moved = relayedBytes(passage);
    let error: string | undefined;
    try {
      if (!passage.allowed) throw new ConnectionEnd("", guestLine(passage.decision));
      this.#access.requireSamePlace(passage);
      await this.#relay(passage, moved);
    } catch (cause) {
      error = await this.#tell(this.#ended ?? cause);
    } finally {
      this.#connection.close();
      this.#access.finish(passage, moved, error);
    }
    return undefined;
  }

  /** Waits for the client, which speaks first, and begins TLS where it does. */
  async #begin(): Promise<boolean> {
    const client = this.#connection;
    if (client.count === 0 && !await client.fill().catch(() => false)) return false;
    if (client.unread[0] !== TLS_HANDSHAKE) return true;
    const inside = await this.#client.acceptTls(client);
    if (!inside) return false;
    this.#connection = inside;
    return true;
  }

  async #relay(passage: Passage, moved: RelayedBytes): Promise<void> {
    // A client speaks first, and a connection stays with the user that its first command names.
    const reader = new CommandReader(this.#connection);
    this.#connection.deadline.set(this.#context.relayMs);
    const first = await reader.next();
    if (!first) return;
    const account = this.#accountFor(first.args);
    const login = this.#access.login(account, passage);
    const server = await this.#context.pool.connect(await this.#access.destination(account));
    const release = () => {
      this.#ended ??= new ConnectionEnd("", "the credential of this database was revoked");
      server.close();
    };
    login.released.addEventListener("abort", release);
    if (login.released.aborted) release();
    try {
      server.deadline.set(this.#context.timeouts.connect);
      await logIn(server, account, login.secret);
      let failure: unknown;
      let isOver = false;
      const end = (error?: unknown) => {
        if (!isOver) failure = error;
        isOver = true;
      };
      const fromServer = this.#readServer(server, login.secret, moved).then(() => end(), end);
      const fromClient = this.#readClient(server, { reader, first }, account, login.secret, moved).then(
        () => server.closeWrite(),
        end,
      );
      await Promise.race([fromServer, fromClient.then(() => failure === undefined ? fromServer : undefined)]);
      server.close();
      // A client that does not read would keep the server's side in its write.
      if (failure !== undefined) this.#connection.deadline.set(this.#context.closeMs);
      await fromServer;
      if (failure !== undefined) await this.#tell(this.#ended ?? failure);
      this.#connection.close();
      await fromClient;
      if (failure !== undefined) throw failure;
    } finally {
      login.released.removeEventListener("abort", release);
      server.close();
    }
  }

  // From the client.

  async #readClient(
    server: BufferedConnection,
    { reader, first }: { reader: CommandReader; first: RedisCommand },
    account: DatabaseAccount,
    secret: string,
    moved: RelayedBytes,
  ): Promise<void> {
    const client = this.#connection;
    let command: RedisCommand | undefined = first;
    let out: Uint8Array[] = [];
    const flush = async () => {
      for (const bytes of out.splice(0)) await server.write(bytes);
    };
    const decide = async (args: readonly Uint8Array[], length: number) => {
      await flush();
      const gone = new AbortController();
      return await this.#context.gate.decide(this.#draft(args, account, length), gone.signal, () => {
        client.deadline.off();
        client.listen(() => gone.abort());
      }).finally(() => client.unlisten());
    };
    while (command) {
      const { args, bytes }: RedisCommand = command;
      const name = latin1(args[0]).toUpperCase();
      let sent = bytes;
      if (name === "AUTH") sent = this.#auth(args, account, secret);
      else if (name === "HELLO") sent = this.#hello(args, account) ?? bytes;
      else if (ENDING.has(name)) {
        sent = this.#replaceBy(`ERR sbx refuses ${name}: it would end the login of the host`);
      } else {
        const passage = await decide(args, bytes.length);
        if (!passage.allowed) sent = this.#replaceBy(`NOPERM ${guestLine(passage.decision)}`);
        else {
          passage.finish();
          if (name === "SELECT" && args.length === 2) this.#database = latin1(args[1]).slice(0, 16);
        }
      }
      moved.sent += sent.length;
      out.push(sent);
      if (out.length > 64) await flush();
      if (client.count === 0) await flush();
      client.deadline.set(this.#context.relayMs);
      command = await reader.next();
    }
    await flush();
    out = [];
  }

  /**
   * The credential of the user that a first command names; without a name, the one whose ref is
   * the password, of the server's default user, or the latest. Clients that are given a password
   * alone say `default` for themselves.
   */
  #accountFor(args: readonly Uint8Array[]): DatabaseAccount {
    const { accounts } = this.#access;
    const of = (user: string) => accounts.find((each) => (each.user ?? DEFAULT_USER) === user);
    const { user = DEFAULT_USER, password } = loginIn(args) ?? {};
    const byRef = user === DEFAULT_USER ? accounts.find(({ ref }) => ref === password) : undefined;
    return byRef ?? of(user) ?? of(DEFAULT_USER) ?? accounts[0];
  }

  #draft(args: readonly Uint8Array[], account: DatabaseAccount, length: number) {
    const { flow, by, host } = this.#client;
    const place = {
      system: "redis" as const,
      host,
      port: flow.port,
      user: account.user ?? "",
      name: this.#database,
    };
    return statementDraft(by, place, readCommand(args), length);
  }

  /** The guest's login becomes the host's, which the server answers at its place among the commands. */
  #auth(args: readonly Uint8Array[], account: DatabaseAccount, secret: string): Uint8Array {
    const refused = this.#refusedUser(loginIn(args), account);
    this.#access.requireNoRef(args.slice(1, 3).map(latin1).join(" "), "AUTH", account.ref);
    return refused ?? authCommand(account, secret);
  }

  /** HELLO without its login. @returns `undefined` where it has none */
  #hello(args: readonly Uint8Array[], account: DatabaseAccount): Uint8Array | undefined {
    const { auth, others } = readHello(args);
    if (!auth) return undefined;
    this.#access.requireNoRef(auth.map(latin1).join(" "), "HELLO", account.ref);
    return this.#refusedUser(loginIn(args), account) ?? commandBytes(others);
  }

  #refusedUser(login: GuestLogin | undefined, account: DatabaseAccount): Uint8Array | undefined {
    const own = account.user ?? DEFAULT_USER;
    const { user, password } = login ?? {};
    if (user === undefined || user === own || user === DEFAULT_USER && password === account.ref) {
      return undefined;
    }
    const isOther = this.#access.accounts.some((each) => (each.user ?? DEFAULT_USER) === user);
    return this.#replaceBy(
      isOther
        ? `WRONGPASS a connection stays with its user "${own}"; open another one`
        : `WRONGPASS the credential is for the user "${own}"`,
    );
  }

  /**
   * A command that no server knows, in place of a refused one: its error fails a
   * transaction as the refusal should.
   */
  #replaceBy(refusal: string): Uint8Array {
    // After CLIENT REPLY OFF, no answer takes one away.
    if (this.#refusals.size >= PENDING_MAX) {
      throw new MessageFault("too many refused commands that wait for answers");
    }
    const name = `sbx-refused-${crypto.randomUUID()}`;
    this.#refusals.set(name, refusal.replace(/[\r\n]/g, " "));
    return commandBytes([encode(name)]);
  }

  // From the server.

  /** Reads lines and the strings behind them, which is all that RESP is made of. */
  async #readServer(server: BufferedConnection, secret: string, moved: RelayedBytes): Promise<void> {
    const client = this.#connection;
    const mask = new SecretMask(secret);
    let out: Uint8Array[] = [];
    const flush = async () => {
      const pieces = out;
      out = [];
      for (const piece of pieces) await client.write(piece);
    };
    while (true) {
      if (server.count === 0) await flush();
      const line = await nextLine(server, ANSWER_LINE_MAX);
      if (!line) break;
      server.deadline.set(this.#context.relayMs);
      moved.received += line.length;
      out.push(mask.push(this.#refusalIn(line) ?? line, true));
      let left = bulkLength(line);
      while (left > 0) {
        if (server.count === 0) {
          await flush();
          if (!await server.fill()) throw new MessageFault("half an answer");
        }
        const piece = server.unread.slice(0, Math.min(left, PIECE_MAX));
        server.skip(piece.length);
        moved.received += piece.length;
        left -= piece.length;
        const passing = mask.push(piece, left === 0);
        if (passing.length > 0) out.push(passing);
      }
      if (out.length > 64) await flush();
    }
    await flush();
  }

  /** The refusal whose place among the answers is here. */
  #refusalIn(line: Uint8Array): Uint8Array | undefined {
    if (this.#refusals.size === 0 || line[0] !== 0x2d) return undefined;
    const [name] = /sbx-refused-[0-9a-f-]{36}/.exec(latin1(line)) ?? [];
    const refusal = name === undefined ? undefined : this.#refusals.get(name);
    if (refusal === undefined) return undefined;
    this.#refusals.delete(name!);
    return encode(`-${refusal}\r\n`);
  }

  /** Tells the client why its connection ends. @returns the reason for the record */
  async #tell(cause: unknown): Promise<string> {
    const text = cause instanceof ConnectionEnd
      ? [cause.message, ...(cause.hint === undefined ? [] : [cause.hint])].join("; ")
      : cause instanceof MessageFault
      ? `the connection has ${cause.reason}`
      : cause instanceof ConnectionLost
      ? errorText(cause)
      : asSbxError(cause, "relaying a connection to a database").message;
    const line = encode(`-ERR ${text.replace(/[\r\n]/g, " ")}\r\n`);
    if (!this.#connection.closed) await this.#connection.write(line).catch(ignore("the client is gone"));
    return text;
  }
}

/** Name and password of a guest's login command. */
interface GuestLogin {
  user?: string;
  password?: string;
}

/** The login in a command; `undefined` for every other command. */
function loginIn(args: readonly Uint8Array[]): GuestLogin | undefined {
  const name = latin1(args[0]).toUpperCase();
  if (name === "AUTH" && args.length === 2) return { password: latin1(args[1]) };
  const auth = name === "AUTH" ? args.slice(1) : name === "HELLO" ? readHello(args).auth : undefined;
  if (!auth || auth.length < 2) return undefined;
  const [user, password] = auth.map(latin1);
  return { user, password };
}

/** @throws {ConnectionEnd} the server refuses the password */
async function logIn(server: BufferedConnection, account: DatabaseAccount, secret: string): Promise<void> {
  await server.write(authCommand(account, secret));
  const line = await nextLine(server, ANSWER_LINE_MAX);
  if (!line) throw new ConnectionLost("closed the connection during the login");
  const text = latin1(line).trim();
  if (text === "+OK") return;
  if (!text.startsWith("-")) throw new MessageFault("an unexpected answer to a login");
  const said = text.slice(1).replaceAll(secret, "[redacted]").slice(0, 512);
  throw new ConnectionEnd("", `the login with the credential of this host failed: ${said}`);
}

function authCommand({ user }: DatabaseAccount, secret: string): Uint8Array {
  return commandBytes(["AUTH", ...(user === undefined ? [] : [user]), secret].map(encode));
}

/** Length of the string behind a line, with its line break. @throws {MessageFault} */
function bulkLength(line: Uint8Array): number {
  if (!BULK_MARKS.includes(line[0])) return 0;
  const digits = latin1(line.subarray(1, -2));
  if (digits === "-1") return 0;
  if (!/^(?:0|[1-9][0-9]{0,9})$/.test(digits)) throw new MessageFault("a string with a false length");
  return Number(digits) + 2;
}

const encode = (text: string) => new TextEncoder().encode(text);

function latin1(bytes: Uint8Array): string {
  return new TextDecoder("latin1").decode(bytes);
}
