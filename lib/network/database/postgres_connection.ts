/**
 * The beginning of a guest's connection to a PostgreSQL server: its first messages,
 * the decision, and both logins.
 */
import { asSbxError, ignore } from "../../base/error/mod.ts";
import { type Decision, guestLine, type Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { errorText } from "../exchange/response_relay.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { DatabaseAccount } from "../interface/mod.ts";
import { relayedBytes } from "../relay.ts";
import type { PinnedDestination } from "../upstream/upstream.ts";
import { ConnectionEnd, DatabaseAccess } from "./access.ts";
import { statementDraft } from "./event.ts";
import { PostgresRelay, SET_UTF8 } from "./postgres.ts";
import { beginPostgresTls, loginAtPostgres, LoginRefused } from "./postgres_login.ts";
import { CANCEL_REQUEST, errorMessage, type StartupPacket, startupParameters } from "./postgres_message.ts";
import type { Cancel, DatabaseClient } from "./client.ts";
import { takeFirst } from "./postgres_first.ts";
import { isPlainEncoding, readSql } from "./statement.ts";

/** Parameters of a StartupMessage that are no settings. */
const ACCOUNT_PARAMETERS = new Set(["user", "database", "replication"]);
/** Version 3 of the protocol, in the upper half of the code. */
const VERSION = 3;
/** Time in which a CancelRequest's connection ends; the server closes it at once. */
const CANCEL_END_BYTES = 64;

export class PostgresConnection {
  readonly #context: ExchangeContext;
  readonly #client: DatabaseClient;
  readonly #access: DatabaseAccess;
  readonly #cancels: Map<string, Cancel>;
  #connection: BufferedConnection;

  constructor(context: ExchangeContext, client: DatabaseClient, cancels: Map<string, Cancel>) {
    this.#context = context;
    this.#client = client;
    this.#access = new DatabaseAccess(context, client, "postgres");
    this.#cancels = cancels;
    this.#connection = client.connection;
  }

  async serve(): Promise<Decision | undefined> {
    let packet: StartupPacket | undefined;
    try {
      const first = await takeFirst(this.#connection, this.#client.acceptTls);
      if (first) this.#connection = first.connection;
      packet = first?.packet;
    } catch (error) {
      if (!(error instanceof MessageFault)) throw error;
      return this.#access.refuse("guard-relay", `the connection has ${error.reason}`);
    }
    if (!packet) return undefined;
    if (packet.code === CANCEL_REQUEST) {
      await this.#cancel(packet);
      return undefined;
    }
    const passage = await this.#access.decide(this.#connection);
    const moved = relayedBytes(passage);
    let error: string | undefined;
    try {
      if (!passage.allowed) throw new ConnectionEnd("42501", guestLine(passage.decision));
      this.#access.requireSamePlace(passage);
      await this.#relay(packet, passage, moved);
    } catch (cause) {
      error = await this.#tell(cause);
    } finally {
      this.#connection.close();
      this.#access.finish(passage, moved, error);
    }
    return undefined;
  }

  /** Logs in and relays. @throws {ConnectionEnd}, {LoginRefused}, {SbxError}, and faults of both sides */
  async #relay(
    { code, bytes }: StartupPacket,
    passage: Passage,
    moved: ReturnType<typeof relayedBytes>,
  ): Promise<void> {
    if (code >>> 16 !== VERSION) {
      throw new ConnectionEnd("0A000", "sbx relays version 3 of the protocol only");
    }
    const parameters = startupParameters(bytes);
    const user = parameters.get("user") ?? "";
    const account = this.#choose(user, parameters);
    const { flow, by, host } = this.#client;
    const place = {
      system: "postgres" as const,
      host,
      port: flow.port,
      user,
      name: parameters.get("database") || user,
    };
    await this.#decideSettings(
      parameters,
      (text) => statementDraft(by, place, readSql(text, "postgres"), text.length),
    );
    const login = this.#access.login(account, passage);
    const destination = await this.#access.destination(account);
    const server = await this.#open(destination, account);
    let cancelKey: string | undefined;
    const relay = { end: (_: ConnectionEnd) => server.close() };
    const release = () =>
      relay.end(new ConnectionEnd("57P01", "the credential of this database was revoked"));
    login.released.addEventListener("abort", release);
    try {
      const { connect } = this.#context.timeouts;
      server.deadline.set(connect);
      const forClient = await loginAtPostgres(server, bytes, {
        user,
        password: login.secret,
        isSecure: account.tls !== "off",
        md5: account.md5 === true,
      }).catch((error) => {
        throw login.released.aborted
          ? new ConnectionEnd("57P01", "the credential of this database was revoked")
          : error;
      });
      const client = this.#connection;
      for (const message of forClient) await client.write(message);
      const session = new PostgresRelay({
        client,
        server,
        gate: this.#context.gate,
        draft: (reading, length) => statementDraft(by, place, reading, length),
        password: login.secret,
        moved,
        idleMs: this.#context.relayMs,
        closeMs: this.#context.closeMs,
        onKey: (key) => {
          if (cancelKey !== undefined) throw new MessageFault("a second key");
          cancelKey = `${host}:${flow.port} ${key}`;
          this.#cancels.set(cancelKey, (packet) => this.#sendCancel(destination, account, packet));
        },
      });
      relay.end = (reason) => session.end(reason);
      if (login.released.aborted) release();
      await session.run();
    } finally {
      login.released.removeEventListener("abort", release);
      if (cancelKey !== undefined) this.#cancels.delete(cancelKey);
      server.close();
    }
  }

  /** Chooses the credential by the user and database that the guest names. @throws {ConnectionEnd} */
  #choose(user: string, parameters: ReadonlyMap<string, string>): DatabaseAccount {
    for (const text of parameters.values()) this.#access.requireNoRef(text, "startup");
    const replication = parameters.get("replication");
    if (replication !== undefined && !/^(?:0|off|false|no)$/i.test(replication)) {
      throw new ConnectionEnd("42501", "replication is not a statement that policy could decide on");
    }
    const encoding = parameters.get("client_encoding");
    if (encoding !== undefined && !isPlainEncoding(encoding.replace(/^'|'$/g, ""))) {
      throw new ConnectionEnd(
        "0A000",
        "sbx reads statements in UTF-8 and the encodings of one byte only",
        SET_UTF8,
      );
    }
    return this.#access.choose(user, parameters.get("database") || user);
  }

  /** Settings of the StartupMessage may do what SET does, and are decided on as SET. */
  async #decideSettings(
    parameters: ReadonlyMap<string, string>,
    draft: (text: string) => ReturnType<typeof statementDraft>,
  ): Promise<void> {
    const settings = [...parameters].filter(([name]) =>
      !ACCOUNT_PARAMETERS.has(name) && !name.startsWith("_pq_.")
    );
    const text = settings.map(([name, value]) => {
      const shown = /^[a-z_][a-z0-9_.]*$/i.test(name) ? name : '"?"';
      return `SET ${shown} TO '${value.replaceAll("'", "''").replaceAll("\\", "")}'`;
    }).join("; ");
    if (settings.length === 0 || readSql(text, "postgres").kind === "read") return;
    const passage = await this.#context.gate.decide(draft(text));
    if (!passage.allowed) throw new ConnectionEnd("42501", guestLine(passage.decision));
    passage.finish();
  }

  #open(destination: PinnedDestination, { tls }: DatabaseAccount): Promise<BufferedConnection> {
    return this.#context.pool.connect(destination, tls === "off" ? undefined : beginPostgresTls);
  }

  /**
   * Passes a CancelRequest on, if it names a connection of this VM to this server. Its client gets no answer.
   */
  async #cancel({ bytes }: StartupPacket): Promise<void> {
    const { host, flow } = this.#client;
    const cancel = this.#cancels.get(`${host}:${flow.port} ${bytes.subarray(8).toHex()}`);
    await cancel?.(bytes).catch(ignore("a CancelRequest has no answer"));
  }

  async #sendCancel(
    destination: PinnedDestination,
    account: DatabaseAccount,
    packet: Uint8Array,
  ): Promise<void> {
    const server = await this.#open(destination, account);
    try {
      server.deadline.set(this.#context.timeouts.connect);
      await server.write(packet);
      // The server closes the connection once it has sent the signal.
      while (server.count < CANCEL_END_BYTES && await server.fill());
    } finally {
      server.close();
    }
  }

  /** Tells the client why its connection ends, in its protocol. @returns the reason for the record */
  async #tell(cause: unknown): Promise<string> {
    const client = this.#connection;
    const fatal = (state: string, text: string, hint?: string) =>
      client.closed
        ? undefined
        : client.write(errorMessage("FATAL", state, text, hint)).catch(ignore("the client is gone"));
    if (cause instanceof ConnectionEnd) {
      await fatal(cause.state, cause.message, cause.hint);
      return cause.message;
    }
    if (cause instanceof LoginRefused) {
      const text = `the login with the credential of this host failed: ${cause.message}`;
      await fatal(cause.state, text, "your user can check it: sbx credentials list");
      return `${text} (${cause.state})`;
    }
    if (cause instanceof MessageFault || cause instanceof ConnectionLost) {
      const text = cause instanceof MessageFault ? `the connection has ${cause.reason}` : errorText(cause);
      await fatal("08P01", text);
      return text;
    }
    const { message, hint } = asSbxError(cause, "relaying a connection to a database");
    await fatal("08006", message, hint);
    return message;
  }
}
