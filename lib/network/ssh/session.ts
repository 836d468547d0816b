/** A session of a guest: one git command, another command, a subsystem or a shell. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import type { HttpEvent, HttpSsh } from "../../event/mod.ts";
import { type Draft, guestLine, type Passage, type Refusal } from "../../policy/mod.ts";
import type { ExchangeContext } from "../exchange/context.ts";
import { SearchedReader } from "../exchange/decoy.ts";
import { relayedResponse } from "../exchange/draft.ts";
import { REQUEST_GIT } from "../exchange/git.ts";
import { formatError, formatPushRefusal } from "../git/mod.ts";
import type { SshAccount } from "../interface/mod.ts";
import { type RelayedBytes, relayedBytes } from "../relay.ts";
import { ChannelReader, ChannelWriter, copy } from "./channel.ts";
import { type GitCommand, gitCommandOf } from "./command.ts";
import { commandDraft, gitDraft, type SshPlace } from "./event.ts";
import { ConnectionLost } from "../fault.ts";
import { errorText } from "../exchange/response_relay.ts";
import { readCall } from "./git.ts";
import type { Channel, Client, ExecOptions, Pty, Session } from "./library.ts";
import { COMMAND_MAX, REFUSED_PACK_MAX } from "./limit.ts";
import type { SshStream } from "./stream.ts";

/** Exit status of a command that sbx refuses, as of one that may not be run. */
const REFUSED_STATUS = 126;
/** Exit status of a command whose server is gone, as `ssh` has it. */
const LOST_STATUS = 255;
/** Values of the only variable that passes. */
const GIT_PROTOCOL = /^version=[0-2]$/;

/** The connection that a session is on. */
export interface SessionHost {
  readonly context: ExchangeContext;
  /** to the guest */
  readonly stream: SshStream;
  readonly place: SshPlace;
  /** IP address of the server, once it is connected to */
  readonly address: string | undefined;
  /** that the guest named */
  readonly user: string;
  /** of the guest's user */
  readonly account: SshAccount | undefined;
  /** users that there are keys for */
  readonly users: readonly string[];
  /** aborts when the guest is gone */
  readonly gone: AbortSignal;
  /** Runs the work of a session. */
  run(work: Promise<void>): void;
  /** Refuses without asking the rules. @returns the line for the guest */
  refuse(refusal: Refusal, ssh: HttpSsh): string;
  /** @throws {SbxError} a rule sends the command to another place, or changes it */
  requireUnchanged(passage: Passage, before: HttpEvent["request"]): void;
  /** The connection to the server. @throws {SbxError} */
  upstream(account: SshAccount, passage: Passage): Promise<{ client: Client; stream: SshStream }>;
}

/** A channel of the host to the server. */
interface Opened {
  channel: Channel;
  writer: ChannelWriter;
  /** settles when the connection to the server is gone */
  gone: Promise<void>;
  /** how its command ended, once it has */
  exit: { code?: number | null; signal?: string };
  /** sbx refused the client's request, and reads the rest of it */
  isRefused?: boolean;
  /** why sbx ended it */
  failure?: unknown;
}

/** A command of a session. */
interface Order extends Pick<HttpSsh, "kind" | "command"> {
  options: ExecOptions;
}

/**
 * Takes the requests of a session. Forwarding, of agents too, is refused by the
 * library where nothing listens for it.
 *
 * @param ended called once when it is closed; never for a session that ran nothing, which the library keeps
 */
export function acceptSession(connection: SessionHost, session: Session, ended: () => void): void {
  const options: ExecOptions = {};
  let upstream: Channel | undefined;
  session.on("env", (accept, reject, { key, val }) => {
    if (key !== "GIT_PROTOCOL" || !GIT_PROTOCOL.test(val)) return void reject?.();
    options.env = { GIT_PROTOCOL: val };
    accept?.();
  });
  session.on("pty", (accept, reject, pty) => {
    if (!/^[\x21-\x7e]{0,64}$/.test(pty.term)) return void reject?.();
    options.pty = pty;
    accept?.();
  });
  session.on("window-change", (accept, _, { rows, cols, height, width }: Pty) => {
    upstream?.setWindow(rows, cols, height, width);
    accept?.();
  });
  session.on("signal", (accept, _, { name }) => {
    if (/^[A-Z0-9]{1,16}$/.test(name)) upstream?.signal(name);
    accept?.();
  });
  const begin = (accept: () => Channel | undefined, kind: HttpSsh["kind"], command: string) => {
    const channel = accept();
    // A session runs one command; the library says nothing of a second one.
    if (!channel) return;
    // A client may say again and again that it closes.
    session.once("close", ended);
    const running = new RunningSession(connection, channel, (opened) => upstream = opened);
    connection.run(running.serve({ kind, command, options }));
  };
  session.on("exec", (accept, _, { command }) => begin(accept, "exec", command));
  session.on("shell", (accept) => begin(accept, "shell", ""));
  session.on(
    "subsystem",
    (accept, _, { name }) => begin(accept, name === "sftp" ? "sftp" : "subsystem", name),
  );
}

class RunningSession {
  readonly #connection: SessionHost;
  readonly #channel: Channel;
  readonly #reader: SearchedReader;
  readonly #out: ChannelWriter;
  readonly #err: ChannelWriter;
  readonly #onOpen: (upstream: Channel) => void;
  readonly #gone: AbortSignal;

  constructor(connection: SessionHost, channel: Channel, onOpen: (upstream: Channel) => void) {
    this.#connection = connection;
    this.#channel = channel;
    this.#onOpen = onOpen;
    const { context: { gate, broker }, place: { by, host } } = connection;
    this.#reader = new SearchedReader(new ChannelReader(channel), {
      ...{ gate, broker, by, host },
      location: "session",
    });
    this.#out = new ChannelWriter(channel, channel, connection.stream);
    this.#err = new ChannelWriter(channel, channel.stderr, connection.stream);
    const closed = new AbortController();
    channel.once("close", () => closed.abort());
    this.#gone = AbortSignal.any([connection.gone, closed.signal]);
  }

  async serve({ kind, command, options }: Order): Promise<void> {
    const { user, users, account } = this.#connection;
    const ssh: HttpSsh = { command: command.slice(0, COMMAND_MAX), kind, user };
    const refuse = (reason: string, remedy: string, id = "guard-ssh") =>
      this.#end(this.#connection.refuse({ id, reason, remedy }, ssh));
    if (command.length > COMMAND_MAX) {
      return await refuse(
        `a command line over SSH is longer than ${COMMAND_MAX} characters`,
        "send a shorter one",
      );
    }
    if (!account) {
      const known = users.map((each) => `"${each}"`).join(" and ");
      return await refuse(
        `the host has no SSH key for the user "${plain(user)}" there, only for ${known}`,
        `log in as ${users[0]}`,
      );
    }
    const git = kind === "exec" ? gitCommandOf(command) : undefined;
    if (git && "fault" in git) {
      const reason = `servers read the repository of the command in different ways: ${git.fault}`;
      return await refuse(reason, "name the repository by its plain path", "guard-ambiguous-path");
    }
    if (git) return await this.#git(git, account, { ...ssh, kind: "git" }, options);
    await this.#other(account, ssh, options);
  }

  async #other(account: SshAccount, ssh: HttpSsh, options: ExecOptions): Promise<void> {
    const draft = commandDraft(this.#connection.place, ssh);
    const passage = await this.#decide(draft);
    if (!passage.allowed) return await this.#end(guestLine(passage.decision));
    const moved = relayedBytes(passage);
    await this.#guard(passage, moved, async () => {
      this.#connection.requireUnchanged(passage, draft.http!.request);
      const open = await this.#open(account, passage, ssh, options);
      const toServer = copy(this.#reader, open.writer, (count) => moved.sent += count)
        .then(() => void open.channel.end())
        .catch((error) => {
          open.failure = error;
          open.channel.close();
        });
      await this.#relay(open, moved, toServer);
    });
  }

  async #git(git: GitCommand, account: SshAccount, ssh: HttpSsh, options: ExecOptions): Promise<void> {
    const { place, context } = this.#connection;
    const draft = gitDraft(place, ssh, git, "list");
    const list = await this.#decide(draft);
    if (!list.allowed) return await this.#end(guestLine(list.decision));
    const listed = relayedBytes(list);
    await this.#guard(list, listed, async () => {
      this.#connection.requireUnchanged(list, draft.http!.request);
      const open = await this.#open(account, list, { ...ssh, command: git.line }, { env: options.env });
      let moved = listed;
      let call: Passage | undefined;
      const toServer = async () => {
        const isPush = git.service === "git-receive-pack";
        const { bytes, isIdle, push } = await readCall(this.#reader, isPush);
        if (!isIdle) {
          const field = { service: git.service, updates: push?.updates ?? [] };
          const callDraft = gitDraft(
            place,
            ssh,
            git,
            "call",
            bytes.length,
            push?.fault === undefined ? field : undefined,
          );
          const refused = push?.fault !== undefined && context.gate.reads(REQUEST_GIT)
            ? context.gate.refuse(callDraft, {
              id: "guard-git",
              reason: `a rule reads git pushes, and this one cannot be read: ${push.fault}`,
              remedy: "push with git, at most 1000 refs at once",
            })
            : undefined;
          const passage = refused ? undefined : await this.#decide(callDraft);
          const decision = refused ?? (passage!.allowed ? undefined : passage!.decision);
          if (decision) {
            const line = plain(guestLine(decision));
            open.isRefused = true;
            open.channel.close();
            await this.#out.write(push ? formatPushRefusal(push, line) : formatError(line));
            await this.#drain();
            return;
          }
          call = passage;
          list.finish({ response: this.#responseOf(listed.received) });
          moved = relayedBytes(passage!);
          this.#connection.requireUnchanged(passage!, callDraft.http!.request);
        }
        if (bytes.length > 0) {
          // The decision on a call knows these bytes; the one on the list knows of none.
          if (call) call.requireOpen();
          else moved.sent += bytes.length;
          if (!await open.writer.write(bytes)) return;
        }
        await copy(this.#reader, open.writer, (count) => moved.sent += count);
        open.channel.end();
      };
      const counter: RelayedBytes = {
        sent: 0,
        get received() {
          return moved.received;
        },
        set received(count) {
          moved.received = count;
        },
      };
      const sending = toServer().catch((error) => {
        open.failure = error;
        open.channel.close();
      });
      try {
        await this.#relay(open, counter, sending);
      } catch (error) {
        call?.finish({ response: this.#responseOf(moved.received), error: failureText(error).record });
        throw error;
      }
      call?.finish({ response: this.#responseOf(moved.received) });
    });
  }

  #decide(draft: Draft): Promise<Passage> {
    return this.#connection.context.gate.decide(draft, this.#gone);
  }

  /** Runs allowed work, whose end is recorded; an error is shown to the guest. */
  async #guard(passage: Passage, moved: RelayedBytes, work: () => Promise<void>): Promise<void> {
    let error: string | undefined;
    try {
      await work();
    } catch (cause) {
      const { guest, record } = failureText(cause);
      error = record;
      await this.#end(guest);
    } finally {
      passage.finish({ response: this.#responseOf(moved.received), ...(error !== undefined && { error }) });
    }
  }

  #responseOf(bytes: number) {
    return relayedResponse(bytes, this.#connection.address);
  }

  async #open(
    account: SshAccount,
    passage: Passage,
    { kind, command }: HttpSsh,
    options: ExecOptions,
  ): Promise<Opened> {
    const { client, stream } = await this.#connection.upstream(account, passage);
    const { host } = this.#connection.place;
    if (stream.destroyed) throw notOpened(host);
    const channel = await new Promise<Channel>((resolve, reject) => {
      const done = (error: Error | null | undefined, opened: Channel) => {
        if (!error) return resolve(opened);
        reject(notOpened(host));
      };
      if (kind === "shell") client.shell(options.pty ?? false, {}, done);
      else if (kind === "sftp" || kind === "subsystem") client.subsys(command, done);
      else client.exec(command, options, done);
      stream.gone.then(() => reject(notOpened(host)));
    });
    this.#onOpen(channel);
    const exit: Opened["exit"] = {};
    channel.on("exit", (code: number | null, signal?: string) => Object.assign(exit, { code, signal }));
    // A guest that leaves ends the command.
    if (this.#gone.aborted) channel.close();
    this.#gone.addEventListener("abort", () => channel.close());
    return { channel, writer: new ChannelWriter(channel, channel, stream), gone: stream.gone, exit };
  }

  /** Passes the server's answers on, and its exit status at their end. */
  async #relay(open: Opened, moved: RelayedBytes, toServer: Promise<void>): Promise<void> {
    const { channel, exit } = open;
    // Without a reader, a channel does not say that it is closed.
    const closed = new Promise<void>((resolve) => {
      channel.once("close", () => resolve());
      open.gone.then(resolve);
      this.#gone.addEventListener("abort", () => resolve());
      if (this.#gone.aborted) resolve();
    });
    const count = (bytes: number) => {
      moved.received += bytes;
    };
    await Promise.all([
      copy(new ChannelReader(channel), this.#out, count),
      copy(new ChannelReader(channel.stderr), this.#err, count),
      closed,
    ]);
    // A server that has ended reads nothing more.
    if (open.isRefused) await toServer;
    if (open.failure !== undefined) throw open.failure;
    if (exit.signal !== undefined) this.#channel.exit(exit.signal.replace(/^SIG/, ""));
    else this.#channel.exit(exit.code ?? (open.isRefused ? REFUSED_STATUS : LOST_STATUS));
    this.#channel.end();
  }

  /** Ends the session with a reason on its stderr. */
  async #end(line: string): Promise<void> {
    await this.#err.write(new TextEncoder().encode(`sbx: ${plain(line)}\n`));
    if (!this.#out.isOpen) return;
    this.#channel.exit(REFUSED_STATUS);
    this.#channel.end();
  }

  /** Reads and drops the pack of a refused push. */
  async #drain(): Promise<void> {
    let left = REFUSED_PACK_MAX;
    for (let bytes = await this.#reader.next(); bytes && left > 0; bytes = await this.#reader.next()) {
      left -= bytes.length;
    }
  }
}

function notOpened(host: string): SbxError {
  return new SbxError("upstream.failed", `${host} does not open the session`, {
    hint: "its administrator decides on the commands, subsystems and sessions of a user",
  });
}

/** An error as the guest reads it, and as it is recorded. */
function failureText(cause: unknown): { guest: string; record: string } {
  if (cause instanceof ConnectionLost) return { guest: errorText(cause), record: errorText(cause) };
  const { message, hint } = asSbxError(cause, "relaying an SSH session");
  return { guest: plain(hint === undefined ? message : `${message}; ${hint}`), record: message };
}
