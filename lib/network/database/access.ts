/**
 * A guest's access to a database, whatever its protocol: the decision on its connection,
 * and the use of the credential.
 */
import { SbxError } from "../../base/error/mod.ts";
import type { Decision, Passage } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { connectDraft, relayedResponse, substitutionDraft } from "../exchange/draft.ts";
import {
  CredentialDenied,
  type DatabaseAccount,
  type DatabaseLogin,
  type DatabaseSystem,
} from "../interface/mod.ts";
import type { RelayedBytes } from "../relay.ts";
import type { PinnedDestination } from "../upstream/upstream.ts";
import type { DatabaseClient } from "./client.ts";

/** A ref of a credential in a text. */
const REF = /credential:blake3:[0-9a-f]{64}/;

/** Reason for the end of a connection, for the client. */
export class ConnectionEnd extends Error {
  /** @param state SQLSTATE */
  constructor(readonly state: string, message: string, readonly hint?: string) {
    super(message);
  }
}

export class DatabaseAccess {
  readonly #context: ExchangeContext;
  readonly #client: DatabaseClient;
  readonly #system: DatabaseSystem;
  /** IP address of the server, once it is known */
  #address?: string;

  constructor(context: ExchangeContext, client: DatabaseClient, system: DatabaseSystem) {
    this.#context = context;
    this.#client = client;
    this.#system = system;
  }

  /** Accounts of this system. */
  get accounts(): DatabaseAccount[] {
    return this.#client.accounts.filter(({ system }) => system === this.#system);
  }

  /**
   * The account for the user and database that a client names: one of this user before one for any,
   * and then one of this database.
   *
   * @param name empty: the client names none yet
   * @throws {ConnectionEnd} no credential fits
   */
  choose(user: string, name: string): DatabaseAccount {
    const { host, flow } = this.#client;
    const ofUser = this.accounts.filter((each) => each.user === undefined || each.user === user);
    const fitting = ofUser.filter((each) => each.name === undefined || name === "" || each.name === name);
    const isCloser = (a: DatabaseAccount, b: DatabaseAccount) =>
      Number(a.user === undefined) - Number(b.user === undefined) ||
      // A client that names no database may choose any where its account does not.
      (name === ""
        ? Number(a.name !== undefined) - Number(b.name !== undefined)
        : Number(a.name === undefined) - Number(b.name === undefined));
    const [found] = fitting.toSorted(isCloser);
    if (found) return found;
    const list = (texts: (string | undefined)[]) => [...new Set(texts)].map((text) => `"${text}"`).join(", ");
    if (ofUser.length > 0) {
      throw new ConnectionEnd(
        "28000",
        `the credential is for the database ${list(ofUser.map((each) => each.name))}, not for "${name}"`,
      );
    }
    throw new ConnectionEnd(
      "28000",
      `the credentials of ${host}:${flow.port} are for the user ${
        list(this.accounts.map((each) => each.user))
      }, not for "${user}"`,
    );
  }

  /**
   * Decides on the connection; a client that goes away ends the wait for a person, and one that
   * gives up soon is answered before.
   */
  async decide(client: BufferedConnection): Promise<Passage> {
    const gone = new AbortController();
    client.deadline.off();
    client.listen(() => gone.abort());
    const heldMs = this.#system === "mysql" ? this.#context.timeouts.greeting : undefined;
    return await this.#context.gate.decide(this.#draft(), gone.signal, undefined, heldMs)
      .finally(() => client.unlisten());
  }

  /** @throws {SbxError} a rule sends the connection to another server */
  requireSamePlace({ event }: Passage): void {
    const { flow, host } = this.#client;
    const { request } = event.http!;
    if (request.host === host && request.port === flow.port) return;
    throw new SbxError(
      "policy.blocked",
      "a rule sends this connection elsewhere, where its password is not for",
      {
        hint: "take the rewrite of the host out of the rule",
      },
    );
  }

  /** Records the end of the connection. */
  finish(passage: Passage, moved: RelayedBytes, error: string | undefined): void {
    if (!passage.allowed) return;
    passage.finish({
      response: relayedResponse(moved.received, this.#address),
      ...(error !== undefined && { error }),
    });
  }

  /** Gets the password; the use is recorded. @throws {ConnectionEnd} a refused use */
  login(account: DatabaseAccount, passage: Passage): DatabaseLogin {
    const { host, flow, by } = this.#client;
    const { event_id } = passage.event.common;
    try {
      const login = this.#context.broker.login!(account.ref, host, flow.port);
      this.#context.gate.observe(substitutionDraft(by, login.substitution, event_id));
      return login;
    } catch (error) {
      if (!(error instanceof CredentialDenied)) throw error;
      for (const each of error.substitutions) {
        this.#context.gate.observe(substitutionDraft(by, each, event_id));
      }
      throw new ConnectionEnd("28000", error.message, error.hint);
    }
  }

  /**
   * Refuses a text with a ref that the host would have to resolve.
   *
   * @param own ref that may stand there, as a password that is not used
   * @throws {ConnectionEnd}
   */
  requireNoRef(text: string, location: string, own?: string): void {
    const [ref] = REF.exec(text) ?? [];
    if (ref === undefined || ref === own) return;
    const { host, flow, by } = this.#client;
    try {
      const { substitution } = this.#context.broker.login!(ref, host, flow.port);
      const reason = "secrets do not travel here";
      this.#context.gate.observe(
        substitutionDraft(by, { ...substitution, location, outcome: "denied", reason }),
      );
    } catch (error) {
      if (!(error instanceof CredentialDenied)) throw error;
      for (const each of error.substitutions) {
        this.#context.gate.observe(substitutionDraft(by, { ...each, location }));
      }
    }
    const other = this.accounts.find((each) => each.ref === ref);
    throw new ConnectionEnd(
      "28000",
      `a ref of a credential stands in ${location}`,
      other?.user === undefined
        ? "leave it out: the host logs in"
        : `it is of the user "${other.user}": begin the connection as that user`,
    );
  }

  /** @throws {SbxError} an address beyond this machine, for a credential without TLS */
  async destination(account: DatabaseAccount): Promise<PinnedDestination> {
    const { host, flow, by } = this.#client;
    const dial = await this.#context.locate(host, flow.port, flow.address, by.actor);
    if (account.tls === "off" && !isLoopback(dial.hostname)) {
      throw new SbxError(
        "upstream.failed",
        `${host} is not on this machine, and its credential is for use without TLS`,
        {
          hint: "revoke the credential, and add it without --tls off",
        },
      );
    }
    this.#address = dial.hostname;
    return { scheme: account.tls === "off" ? "tcp" : "https", host, port: flow.port, dial };
  }

  refuse(id: string, reason: string): Decision {
    return this.#context.gate.refuse(this.#draft(), { id, reason });
  }

  #draft() {
    const { flow, by, host } = this.#client;
    return connectDraft(by, this.#system, host, flow.port, this.#system);
  }
}

function isLoopback(address: string): boolean {
  return address === "::1" || /^127\.[0-9.]+$/.test(address);
}
