/** The beginning of a guest's connection to a MySQL server: the decision, the greeting, and both logins. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { readExactly, writeAll } from "../../base/wire/mod.ts";
import { type Decision, guestLine, type Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { errorText } from "../exchange/response_relay.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { DatabaseAccount } from "../interface/mod.ts";
import { type RelayedBytes, relayedBytes } from "../relay.ts";
import { UpgradeRefused } from "../upstream/connect.ts";
import { ConnectionEnd, DatabaseAccess } from "./access.ts";
import type { DatabaseClient } from "./client.ts";
import { statementDraft } from "./event.ts";
import { LOGIN_MESSAGE_MAX, SERVER_LOGIN_MAX } from "./limit.ts";
import { codeOf, isPlainCollation, MysqlRelay, unsureName } from "./mysql.ts";
import { askNames, type NameReading } from "./mysql_names.ts";
import {
  acceptedLogin,
  changeUserAtMysql,
  type ClientLogin,
  type Greeting,
  guestGreeting,
  isKnownMethod,
  loginAtMysql,
  loginCapabilities,
  loginHead,
  readClientLogin,
  readGreeting,
  ServerRefusal,
  SSL_REQUEST_LENGTH,
  switchToNative,
} from "./mysql_login.ts";
import {
  CAPABILITY,
  errorPacket,
  okStatus,
  packet,
  PACKET_HEAD,
  PacketReader,
  takePacket,
} from "./mysql_packet.ts";

/** A guest that has said who it is. */
interface Introduced {
  greeting: Greeting;
  client: ClientLogin;
  account: DatabaseAccount;
}

export class MysqlConnection {
  readonly #context: ExchangeContext;
  readonly #client: DatabaseClient;
  readonly #access: DatabaseAccess;
  #connection: BufferedConnection;
  /** number of the next packet for the client; `undefined` in the middle of one */
  #sequence: number | undefined = 0;

  constructor(context: ExchangeContext, client: DatabaseClient) {
    this.#context = context;
    this.#client = client;
    this.#access = new DatabaseAccess(context, client, "mysql");
    this.#connection = client.connection;
  }

  async serve(): Promise<Decision | undefined> {
    const passage = await this.#access.decide(this.#connection);
    const moved = relayedBytes(passage);
    let error: string | undefined;
    try {
      if (!passage.allowed) throw new ConnectionEnd("42501", guestLine(passage.decision));
      this.#access.requireSamePlace(passage);
      await this.#relay(passage, moved);
    } catch (cause) {
      error = await this.#report(cause);
    } finally {
      this.#connection.close();
      this.#access.finish(passage, moved, error);
    }
    return undefined;
  }

  async #relay(passage: Passage, moved: RelayedBytes): Promise<void> {
    const { accounts } = this.#access;
    // One account of a server that needs TLS makes TLS needed for all.
    const strictest = accounts.find(({ tls }) => tls !== "off") ?? accounts[0];
    const isSecure = strictest.tls !== "off";
    const destination = await this.#access.destination(strictest);
    let introduced: Introduced | undefined;
    let failure: unknown;
    // The server greets before TLS begins: the guest is greeted, and answers, in between.
    const beginTls = async (tcp: Deno.TcpConn) => {
      try {
        introduced = await this.#introduce(await readFirstPacket(tcp));
        const { client, greeting } = introduced;
        if ((greeting.capabilities & CAPABILITY.SSL) === 0) throw withoutTls();
        await writeAll(tcp, packet(1, loginHead(client, loginCapabilities(client, greeting, true))));
      } catch (error) {
        failure = error;
        throw new UpgradeRefused(asSbxError(error, "beginning TLS at a database"));
      }
    };
    const server = await this.#context.pool.connect(destination, isSecure ? beginTls : undefined)
      .catch((error) => {
        throw failure ?? error;
      });
    try {
      if (!isSecure) {
        server.deadline.set(this.#context.timeouts.connect);
        introduced = await this.#introduce(await takePacket(server, 0, SERVER_LOGIN_MAX));
      }
      await this.#session(server, introduced!, passage, moved, isSecure);
    } finally {
      server.close();
    }
  }

  /** Greets the guest as the server does, and reads its login. */
  async #introduce(first: Uint8Array): Promise<Introduced> {
    const greeting = readGreeting(first);
    this.#connection.deadline.set(this.#context.timeouts.head);
    await this.#connection.write(guestGreeting(greeting));
    let sequence = 1;
    let body = await takePacket(this.#connection, sequence, LOGIN_MESSAGE_MAX);
    const asksTls = body.length === SSL_REQUEST_LENGTH;
    if (asksTls) {
      if ((new PacketReader(body).uint(4) & CAPABILITY.SSL) === 0) throw new MessageFault("half a login");
      const inside = await this.#client.acceptTls(this.#connection);
      if (!inside) throw new ConnectionLost("ended TLS");
      this.#connection = inside;
      body = await takePacket(this.#connection, ++sequence, LOGIN_MESSAGE_MAX);
    }
    this.#sequence = ++sequence;
    const client = readClientLogin(body, greeting);
    const account = this.#choose(client, client.answer);
    if (!isKnownMethod(client.plugin)) {
      await this.#connection.write(switchToNative(sequence));
      this.#sequence = undefined;
      await takePacket(this.#connection, sequence + 1, LOGIN_MESSAGE_MAX);
      this.#sequence = sequence + 2;
    }
    return { greeting, client, account };
  }

  /** Chooses the credential by the user and database that the guest names. @throws {ConnectionEnd} */
  #choose(
    { user, database, collation, attributes }: Omit<
      ClientLogin,
      "capabilities" | "extended" | "maxPacket" | "answer"
    >,
    answer: Uint8Array,
  ): DatabaseAccount {
    for (const text of [user, database, latin1(attributes)]) this.#access.requireNoRef(text, "startup");
    // Also the password that is not used may be the ref of this account alone.
    const account = this.#access.choose(user, database);
    this.#access.requireNoRef(latin1(answer), "startup", account.ref);
    if (collation !== 0 && !isPlainCollation(collation)) {
      throw new ConnectionEnd(
        "0A000",
        "sbx reads statements in UTF-8 and the encodings of one byte only; connect with the character set utf8mb4",
      );
    }
    return account;
  }

  async #session(
    server: BufferedConnection,
    { greeting, client, account }: Introduced,
    passage: Passage,
    moved: RelayedBytes,
    isSecure: boolean,
  ): Promise<void> {
    const { flow, by, host } = this.#client;
    const { user, database } = client;
    const login = this.#access.login(account, passage);
    const revoked = new ConnectionEnd("57P01", "the credential of this database was revoked");
    const relay = { end: (_: ConnectionEnd) => server.close() };
    const release = () => relay.end(revoked);
    login.released.addEventListener("abort", release);
    if (login.released.aborted) release();
    const hostAccount = { user, password: login.secret, isSecure };
    const place = { system: "mysql" as const, host, port: flow.port, user, name: database };
    try {
      server.deadline.set(this.#context.timeouts.connect);
      const ok = await loginAtMysql(server, greeting, client, hostAccount, isSecure ? 2 : 1).catch(
        (error) => {
          throw login.released.aborted ? revoked : withoutSecret(error, login.secret);
        },
      );
      const capabilities = loginCapabilities(client, greeting, isSecure);
      const hasNoEof = (capabilities & CAPABILITY.DEPRECATE_EOF) !== 0;
      const nameOf = await askNames(server, hasNoEof);
      const name = chosenName(nameOf, database);
      await this.#accept(client, ok);
      const session = new MysqlRelay({
        client: this.#connection,
        server,
        gate: this.#context.gate,
        draft: (reading, bytes, name) => statementDraft(by, { ...place, name }, reading, bytes),
        nameOf,
        password: login.secret,
        moved,
        idleMs: this.#context.relayMs,
        hasNoEof,
        status: okStatus(ok),
        isForeign: !isPlainCollation(greeting.collation),
        only: account.name,
        database: name,
        changeUser: async (body) => {
          const next = readChangeUser(body, capabilities);
          if (this.#choose(next, next.answer) !== account || next.user !== user) {
            throw new ConnectionEnd("28000", "a connection stays with its user; open another one");
          }
          const chosen = chosenName(nameOf, next.database);
          const accepted = await changeUserAtMysql(server, next, hostAccount, capabilities)
            .catch((error) => {
              throw withoutSecret(error, login.secret);
            });
          return {
            packets: this.#acceptance(next, accepted, 1),
            status: okStatus(accepted),
            database: chosen,
          };
        },
      });
      relay.end = (reason) => session.end(reason);
      if (login.released.aborted) release();
      try {
        await session.run();
      } finally {
        this.#sequence = session.sequence;
      }
    } finally {
      login.released.removeEventListener("abort", release);
    }
  }

  async #accept(client: ClientLogin, ok: Uint8Array): Promise<void> {
    const bytes = this.#acceptance(client, ok, this.#sequence!);
    this.#sequence = undefined;
    await this.#connection.write(bytes);
  }

  #acceptance(
    { plugin, answer }: Pick<ClientLogin, "plugin" | "answer">,
    ok: Uint8Array,
    sequence: number,
  ): Uint8Array<ArrayBuffer> {
    const bodies = [...acceptedLogin({ plugin, answer }), ok];
    return joinBytes(bodies.map((body, at) => packet(sequence + at, body)));
  }

  /** Ends the connection with an error of its protocol. @returns the reason for the record */
  async #report(cause: unknown): Promise<string> {
    const client = this.#connection;
    const fatal = async (code: number, state: string, text: string) => {
      if (client.closed || this.#sequence === undefined) return;
      client.deadline.set(this.#context.closeMs);
      await client.write(errorPacket(this.#sequence, code, state, text)).catch(ignore("the client is gone"));
    };
    if (cause instanceof ConnectionEnd) {
      await fatal(...codeOf(cause), cause.message);
      return cause.message;
    }
    if (cause instanceof ServerRefusal) {
      const { code, state } = cause.error;
      const text = `the login with the credential of this host failed: ${cause.message}`;
      await fatal(code, state, text);
      return `${text} (${state})`;
    }
    if (cause instanceof MessageFault || cause instanceof ConnectionLost) {
      const text = cause instanceof MessageFault ? `the connection has ${cause.reason}` : errorText(cause);
      await fatal(1043, "08S01", text);
      return text;
    }
    const { message, hint } = asSbxError(cause, "relaying a connection to a database");
    await fatal(2013, "HY000", hint === undefined ? message : `${message}; ${hint}`);
    return message;
  }
}

/** The server's words may repeat the password. */
function withoutSecret(error: unknown, secret: string): unknown {
  if (!(error instanceof ServerRefusal)) return error;
  const text = error.error.text.replaceAll(secret, "[redacted]").slice(0, 512);
  return new ServerRefusal({ ...error.error, text });
}

function withoutTls(): SbxError {
  return new SbxError("upstream.failed", "the server offers no TLS, and no password is sent without it", {
    hint: "switch TLS on at the server; or give --tls off with the credential of a database of this machine",
  });
}

/** The database that a client names at its login. @throws {ConnectionEnd} */
function chosenName(nameOf: NameReading, name: string): string {
  const chosen = nameOf(name);
  if (chosen === undefined) throw new ConnectionEnd("42000", unsureName(name));
  return chosen;
}

/** Reads the first packet, and nothing behind it: more could only be written by someone on the path. */
async function readFirstPacket(tcp: Deno.TcpConn): Promise<Uint8Array> {
  const take = async (length: number) => {
    const bytes = await readExactly(tcp, length);
    if (!bytes) throw new ConnectionLost("closed the connection");
    return bytes;
  };
  const head = await take(PACKET_HEAD);
  const length = head[0] | head[1] << 8 | head[2] << 16;
  if (head[3] !== 0 || length > SERVER_LOGIN_MAX) throw new MessageFault("a false greeting");
  return await take(length);
}

function readChangeUser(body: Uint8Array, capabilities: number) {
  const reader = new PacketReader(body, 1);
  const user = reader.text();
  const answer = reader.bytes(reader.uint(1));
  const database = reader.text();
  const collation = reader.left >= 2 ? reader.uint(2) : 0;
  const plugin = reader.left > 0 ? reader.text() : "";
  const hasAttributes = (capabilities & CAPABILITY.CONNECT_ATTRS) !== 0 && reader.left > 0;
  return {
    user,
    answer,
    database,
    collation,
    plugin,
    attributes: hasAttributes ? reader.counted() : new Uint8Array(),
  };
}

function latin1(bytes: Uint8Array): string {
  return new TextDecoder("latin1").decode(bytes);
}
