/** One SSH connection of a guest: its sessions, and the one connection of the host to the server. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import type { HttpEvent } from "../../event/mod.ts";
import { guestLine, type Passage, type Refusal } from "../../policy/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { substitutionDraft } from "../exchange/draft.ts";
import type { Flow, Requester } from "../exchange/request.ts";
import { CredentialDenied, type SshAccount } from "../interface/mod.ts";
import { commandDraft } from "./event.ts";
import type { HostKey } from "./host_key.ts";
import { ALGORITHMS, type Client, hostKeyAlgorithms, loadSsh2, type ServerClient } from "./library.ts";
import { SESSIONS_MAX, USER_MAX } from "./limit.ts";
import { acceptSession, type SessionHost } from "./session.ts";
import { SshStream } from "./stream.ts";
import { logIn } from "./upstream.ts";

/** A guest's connection to an SSH server, before it is read. */
export interface SshClient {
  connection: BufferedConnection;
  flow: Flow;
  by: Requester;
  host: string;
  accounts: readonly SshAccount[];
}

export class SshConnection implements SessionHost {
  readonly context: ExchangeContext;
  readonly #client: SshClient;
  /** to the guest */
  readonly stream: SshStream;
  #guest?: ServerClient;
  #user = "";
  #sessions = 0;
  #upstream?: Promise<{ client: Client; stream: SshStream }>;
  #upstreamStream?: SshStream;
  #address?: string;
  readonly #running = new Set<Promise<void>>();
  readonly #gone = new AbortController();

  constructor(context: ExchangeContext, client: SshClient) {
    this.context = context;
    this.#client = client;
    this.stream = new SshStream(client.connection);
  }

  /** The server, and who asks. */
  get place() {
    const { by, host, flow: { port } } = this.#client;
    return { by, host, port };
  }

  /** User that the guest named. */
  get user(): string {
    return this.#user;
  }

  /** The account of the guest's user. */
  get account(): SshAccount | undefined {
    return this.#client.accounts.find(({ user }) => user === this.#user);
  }

  /** Users that the credentials of this server are for. */
  get users(): string[] {
    return [...new Set(this.#client.accounts.map(({ user }) => user))];
  }

  /** IP address of the server, once it is connected to. */
  get address(): string | undefined {
    return this.#address;
  }

  /** Aborts when the guest is gone. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Serves it until it ends. @throws {SbxError} `ledger.unavailable` */
  async serve(hostKey: HostKey): Promise<void> {
    const ssh2 = await loadSsh2();
    const { handshake, relay } = this.context.timeouts;
    this.#client.connection.deadline.set(handshake);
    const server = new ssh2.Server({
      hostKeys: [hostKey.privateKey],
      ident: "sbx",
      algorithms: { ...ALGORITHMS, serverHostKey: hostKeyAlgorithms("ssh-ed25519") },
    });
    server.on("error", ignore("each connection has its own end"));
    server.on("connection", (client) => this.#accept(client, relay));
    server.injectSocket(this.stream);
    await this.stream.gone;
    this.#gone.abort();
    this.#upstreamStream?.destroy();
    await Promise.all(this.#running);
  }

  #accept(client: ServerClient, idleMs: number): void {
    this.#guest = client;
    client.on("error", ignore("the stream ends after an error"));
    // The VM is the user: keys and passwords of its programs do not count.
    client.on("authentication", (context) => {
      if (context.username.length > USER_MAX) return context.reject();
      this.#user = context.username;
      context.accept();
    });
    client.on("ready", () => {
      this.stream.idleMs = idleMs;
      this.#client.connection.deadline.set(idleMs);
    });
    client.on("session", (accept, reject) => {
      if (this.#sessions >= SESSIONS_MAX) return reject();
      this.#sessions++;
      acceptSession(this, accept(), () => this.#sessions--);
    });
  }

  /** Runs the work of a session; a failing ledger ends the connection. */
  run(work: Promise<void>): void {
    const running = work.catch((error) => {
      this.#failure ??= error;
      this.stream.destroy();
    }).finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** why the connection ended */
  #failure?: unknown;

  /** @throws what ended the connection */
  requireWhole(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Refuses without asking the rules. @returns the line for the guest */
  refuse(refusal: Refusal, ssh: NonNullable<HttpEvent["request"]["ssh"]>): string {
    return guestLine(this.context.gate.refuse(commandDraft(this.place, ssh), refusal));
  }

  /** @throws {SbxError} a rule sends the command to another place, or changes it */
  requireUnchanged({ event }: Passage, before: HttpEvent["request"]): void {
    const { method, host, port, path, query, scheme } = event.http!.request;
    const isSame = method === before.method && host === before.host && port === before.port &&
      path === before.path && query === before.query && scheme === before.scheme;
    if (isSame) return;
    throw new SbxError(
      "policy.rewrite.invalid",
      "a rule rewrites a request over SSH, which cannot be sent so",
      {
        hint: "take the rewrite out of the rule",
      },
    );
  }

  /**
   * The host's connection to the server, which all sessions share.
   *
   * @param passage of the first command; the login is recorded for it
   * @throws {SbxError}
   */
  upstream(account: SshAccount, passage: Passage): Promise<{ client: Client; stream: SshStream }> {
    return this.#upstream ??= this.#logIn(account, passage);
  }

  async #logIn(account: SshAccount, passage: Passage): Promise<{ client: Client; stream: SshStream }> {
    const { host, flow, by } = this.#client;
    const { event_id } = passage.event.common;
    const { broker, gate, pool, locate, timeouts } = this.context;
    const observe = (each: Parameters<typeof substitutionDraft>[1]) =>
      gate.observe(substitutionDraft(by, each, event_id));
    let login;
    try {
      login = broker.sshLogin!(account.ref, host, flow.port);
    } catch (error) {
      if (error instanceof CredentialDenied) error.substitutions.forEach(observe);
      throw error;
    }
    const dial = await locate(host, flow.port, flow.address, by.actor);
    const connection = await pool.connect({ scheme: "tcp", host, port: flow.port, dial });
    this.#address = dial.hostname;
    const stream = this.#upstreamStream = new SshStream(connection);
    if (this.stream.destroyed) stream.destroy();
    const end = () => {
      stream.destroy();
      this.stream.destroy();
    };
    login.released.addEventListener("abort", end);
    if (login.released.aborted) end();
    stream.gone.then(() => login.released.removeEventListener("abort", end));
    const name = flow.port === 22 ? host : `${host}:${flow.port}`;
    let isUsed = false;
    const client = await logIn(stream, {
      name,
      account,
      login: {
        ...login,
        sign: async (data, algorithm) => {
          if (!isUsed) observe(login.substitution);
          isUsed = true;
          return await login.sign(data, algorithm);
        },
      },
    });
    stream.idleMs = timeouts.relay;
    connection.deadline.set(timeouts.relay);
    client.on("error", ignore("the channels end with the connection"));
    // The guest still gets the last bytes of a server that is gone.
    stream.gone.then(() => Promise.all(this.#running)).then(() => this.#guest?.end());
    return { client, stream };
  }
}
