/**
 * An editor on the host and an agent in a VM, which speak the Agent Client Protocol through sbx. Each side
 * has a connection of its own, so no id of one reaches the other; only the methods named here pass, and
 * each message is written again.
 */
import * as acp from "@agentclientprotocol/sdk";
import type { z } from "zod";
import { ignore, SbxError } from "../base/error/mod.ts";
import { note, plain } from "../base/print/mod.ts";
import { VERSION } from "../base/version/mod.ts";
import type { AskView } from "../client/api/mod.ts";
import { type AskAnswers, Asks } from "./ask.ts";
import { agentError, errorOut } from "./error.ts";
import { FILE_MAX, type FileAccess, fileOf, textBefore } from "./file.ts";
import { guardedStream, type Pipes } from "./guard.ts";
import { promptIn } from "./inward.ts";
import { OWN_CALL, toolCallOut, updateOut } from "./outward.ts";
import { type Folder, Place } from "./place.ts";
import {
  ConfigChanged,
  Initialized,
  LoadedSession,
  NewSession,
  Prompted,
  SessionId,
  SessionList,
} from "./schema.ts";

/** Most `bytes` of one message of the editor: pictures of a prompt. */
export const EDITOR_MESSAGE_MAX = 32 * 1024 * 1024;
/** Messages of the agent that the editor has not taken yet, before more of them are read. */
const UNDER_WAY_MAX = 64;
/** Most sessions of one connection. */
const SESSIONS_MAX = 256;
/** Most answers to choose from, and most characters of each name. */
const OPTIONS_MAX = 16;
const OPTION_MAX = 256;

/** The agent's server in a VM. */
export interface Backend extends Disposable {
  /** name of the agent, for people */
  agent: string;
  vm: string;
  folder: Folder;
  pipes: Pipes;
  /** the error of its end */
  ended: Promise<Error>;
  /** calls `see` for every ask of the VM, the ones already waiting too */
  watchAsks(see: (ask: AskView) => void): Disposable;
  answers: AskAnswers;
}

export interface RelayOptions {
  /** files of the editor */
  access: FileAccess;
  /** makes or wakes the VM, and starts the agent's server */
  start(): Promise<Backend>;
}

/** Serves an editor until it closes its end, or the agent ends. @throws {unknown} what ended the agent */
export async function relay(editor: Pipes, options: RelayOptions): Promise<void> {
  await new Relay(options).serve(editor);
}

class Relay {
  readonly #options: RelayOptions;
  readonly #sessions = new Set<string>();
  readonly #ended = new AbortController();
  #editor!: acp.AgentContext;
  #backend?: Backend;
  #guest?: acp.ClientConnection;
  #place!: Place;
  #asks?: Asks;
  #watch?: Disposable;
  #failure?: Error;
  #isStarted = false;
  #writes = 0;
  #underWay = 0;
  #taken = Promise.withResolvers<void>();

  constructor(options: RelayOptions) {
    this.#options = options;
  }

  async serve({ readable, writable }: Pipes): Promise<void> {
    const line = writable.getWriter();
    let written = Promise.resolve();
    const output = new WritableStream<Uint8Array>({
      write: (bytes) => written = line.write(bytes),
    });
    const stream = acp.ndJsonStream(output, readable, { maxMessageBytes: EDITOR_MESSAGE_MAX });
    const connection = this.#agentApp().connect(stream);
    this.#editor = connection.client;
    this.#ended.signal.addEventListener("abort", async () => {
      // The answers to what waited are with the editor first.
      let seen: Promise<void>;
      do {
        seen = written;
        await seen.catch(ignore("the editor has left"));
        await nextTask();
      } while (seen !== written);
      connection.close();
    });
    try {
      await connection.closed;
    } finally {
      this.#ended.abort();
      this.#watch?.[Symbol.dispose]();
      this.#guest?.close();
      this.#backend?.[Symbol.dispose]();
      await line.close().catch(ignore("the editor has left"));
    }
    if (this.#failure) throw this.#failure;
  }

  /** The methods of the editor. */
  #agentApp(): acp.AgentApp {
    return acp.agent({ name: "sbx" })
      .onRequest("initialize", ({ params }) => this.#initialize(params))
      .onRequest("session/new", async ({ params: { cwd, mcpServers }, signal }) => {
        this.#requireRoom();
        const params = { cwd: this.#folderIn(cwd), mcpServers: [] };
        this.#leaveOut(mcpServers);
        const made = await this.#ask("session/new", params, NewSession, signal);
        if (this.#sessions.has(made.sessionId)) {
          throw acp.RequestError.internalError(
            undefined,
            "sbx: the agent gave a new session the id of another",
          );
        }
        this.#sessions.add(made.sessionId);
        this.#asks!.session = made.sessionId;
        return made as acp.NewSessionResponse;
      })
      .onRequest("session/load", ({ params, signal }) => this.#again("session/load", params, signal))
      .onRequest("session/resume", ({ params, signal }) => this.#again("session/resume", params, signal))
      .onRequest("session/list", async ({ params: { cwd, cursor }, signal }) => {
        const params = { ...cwd != null && { cwd: this.#folderIn(cwd) }, ...cursor != null && { cursor } };
        const { sessions, nextCursor } = await this.#ask("session/list", params, SessionList, signal);
        const own = sessions.flatMap((session) => {
          const dir = this.#place.toHost(session.cwd);
          return dir === undefined ? [] : [{ ...session, cwd: dir }];
        });
        return { sessions: own, nextCursor };
      })
      .onRequest("session/prompt", async ({ params: { sessionId, prompt }, signal }) => {
        this.#requireSession(sessionId);
        this.#asks!.session = sessionId;
        const params = { sessionId, prompt: promptIn(prompt, this.#place) };
        const { stopReason } = await this.#ask("session/prompt", params, Prompted, signal);
        await this.#settled();
        return { stopReason };
      })
      .onRequest("session/set_mode", async ({ params: { sessionId, modeId }, signal }) => {
        this.#requireSession(sessionId);
        await this.#ask("session/set_mode", { sessionId, modeId }, undefined, signal);
        return {};
      })
      .onRequest("session/set_config_option", async ({ params, signal }) => {
        this.#requireSession(params.sessionId);
        const { sessionId, configId, value } = params;
        const sent = "type" in params
          ? { sessionId, configId, type: params.type, value }
          : { sessionId, configId, value };
        const changed = await this.#ask("session/set_config_option", sent, ConfigChanged, signal);
        return changed as acp.SetSessionConfigOptionResponse;
      })
      .onRequest("session/close", async ({ params: { sessionId }, signal }) => {
        this.#requireSession(sessionId);
        await this.#ask("session/close", { sessionId }, undefined, signal);
        this.#sessions.delete(sessionId);
        return {};
      })
      .onRequest("session/delete", async ({ params: { sessionId }, signal }) => {
        await this.#ask("session/delete", { sessionId }, undefined, signal);
        this.#sessions.delete(sessionId);
        return {};
      })
      .onNotification("session/cancel", async ({ params: { sessionId } }) => {
        if (this.#sessions.has(sessionId)) await this.#guest?.agent.notify("session/cancel", { sessionId });
      });
  }

  /** The methods of the agent. */
  #clientApp(): acp.ClientApp {
    return acp.client({ name: "sbx" })
      .onNotification("session/update", async ({ params: { sessionId, update } }) => {
        if (!this.#sessions.has(sessionId)) return;
        const own = updateOut(update, this.#place);
        if (own) await this.#tell(() => this.#editor.notify("session/update", { sessionId, update: own }));
      })
      .onRequest("session/request_permission", async ({ params, signal }) => {
        const { sessionId, toolCall, options } = params;
        this.#requireSession(sessionId);
        const own = toolCallOut(toolCall, this.#place);
        if (!own || options.length > OPTIONS_MAX) throw acp.RequestError.invalidParams();
        const shown: acp.RequestPermissionRequest = {
          sessionId,
          toolCall: own,
          options: options.map(({ optionId, name, kind }) => ({
            optionId,
            name: plain(name.slice(0, OPTION_MAX).toWellFormed()),
            kind,
          })),
        };
        const { outcome } = await this.#editor.request("session/request_permission", shown, {
          cancellationSignal: signal,
        });
        // An answer that was not offered does not count.
        const isOffered = outcome.outcome === "selected" &&
          options.some(({ optionId }) => optionId === outcome.optionId);
        return {
          outcome: isOffered ? { outcome: "selected", optionId: outcome.optionId } : { outcome: "cancelled" },
        };
      })
      .onRequest("fs/read_text_file", async ({ params: { sessionId, path, line, limit }, signal }) => {
        this.#requireSession(sessionId);
        const own = await fileOf(path, "read", this.#files());
        const { content } = await this.#editor.request(
          "fs/read_text_file",
          { sessionId, path: own, line, limit },
          { cancellationSignal: signal },
        );
        if (content.length > FILE_MAX) {
          throw acp.RequestError.invalidParams(undefined, "sbx: the file is too large");
        }
        return { content };
      })
      .onRequest("fs/write_text_file", async ({ params: { sessionId, path, content }, signal }) => {
        this.#requireSession(sessionId);
        if (content.length > FILE_MAX) {
          throw acp.RequestError.invalidParams(undefined, "sbx: the file is too large");
        }
        const own = await fileOf(path, "write", this.#files());
        await this.#requireConsent(sessionId, own, content, signal);
        // The person may have changed the folder meanwhile.
        await fileOf(path, "write", this.#files());
        await this.#editor.request("fs/write_text_file", { sessionId, path: own, content });
        return {};
      });
  }

  async #initialize(
    { protocolVersion, clientCapabilities }: acp.InitializeRequest,
  ): Promise<acp.InitializeResponse> {
    if (protocolVersion < acp.PROTOCOL_VERSION) {
      throw new acp.RequestError(
        -32602,
        `sbx: the editor speaks version ${protocolVersion} of the protocol, which is too old`,
      );
    }
    if (this.#isStarted) {
      throw acp.RequestError.invalidRequest(undefined, "sbx: initialize was called before");
    }
    this.#isStarted = true;
    try {
      const backend = await this.#options.start();
      if (this.#ended.signal.aborted) {
        backend[Symbol.dispose]();
        throw acp.RequestError.requestCancelled();
      }
      this.#backend = backend;
      this.#place = new Place(backend.folder);
      this.#asks = new Asks(this.#editor, backend.answers);
      this.#guest = this.#clientApp().connect(guardedStream(backend.pipes, () => this.#room()));
      this.#watchEnd(backend, this.#guest);
      this.#watch = backend.watchAsks((ask) => this.#asks!.see(ask));
      const { access } = this.#options;
      const fs = clientCapabilities?.fs;
      const { agentCapabilities = {}, agentInfo } = await this.#ask("initialize", {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: {
          fs: {
            readTextFile: access !== "none" && fs?.readTextFile === true,
            writeTextFile: access === "write" && fs?.writeTextFile === true,
          },
          terminal: false,
        },
        clientInfo: { name: "sbx", version: VERSION },
      }, Initialized);
      return {
        protocolVersion: acp.PROTOCOL_VERSION,
        agentCapabilities: agentCapabilities as acp.AgentCapabilities,
        agentInfo: {
          name: `sbx-${plain(agentInfo?.name ?? "agent")}`,
          title: `${backend.agent} in the VM ${backend.vm}`,
          version: plain(agentInfo?.version ?? VERSION),
        },
        // The agent's own ways to log in are programs for the host to run; its keys are sbx's matter.
        authMethods: [],
      };
    } catch (error) {
      // A person can do the first step, such as adding a key, while the editor waits.
      if (!this.#backend) this.#isStarted = false;
      throw errorOut(error, "starting the agent");
    }
  }

  /** Ends the connection with the editor once the agent has ended, after the answers to what waits. */
  #watchEnd({ ended, vm, agent }: Backend, guest: acp.ClientConnection): void {
    const end = (error: Error) => {
      if (this.#ended.signal.aborted) return;
      this.#failure = error;
      guest.close(error);
      this.#ended.abort();
    };
    ended.then(end);
    guest.closed.then(() => end(brokeOff({ agent, vm }, guest.signal.reason)));
  }

  /** Takes up a session of before. Its updates come before its answer. */
  async #again(
    method: "session/load" | "session/resume",
    { sessionId, cwd, mcpServers = [] }: acp.LoadSessionRequest | acp.ResumeSessionRequest,
    signal: AbortSignal,
  ) {
    this.#requireRoom();
    if (!SessionId.safeParse(sessionId).success) throw acp.RequestError.invalidParams();
    const params = { sessionId, cwd: this.#folderIn(cwd), mcpServers: [] };
    this.#leaveOut(mcpServers);
    const isNew = !this.#sessions.has(sessionId);
    this.#sessions.add(sessionId);
    try {
      const loaded = await this.#ask(method, params, LoadedSession, signal);
      await this.#settled();
      this.#asks!.session = sessionId;
      return loaded as acp.LoadSessionResponse;
    } catch (error) {
      if (isNew) this.#sessions.delete(sessionId);
      throw error;
    }
  }

  /** Asks the agent, and checks its answer. @param schema absent: the answer has nothing in it */
  async #ask<S extends z.ZodType>(
    method: string,
    params: unknown,
    schema?: S,
    signal?: AbortSignal,
  ): Promise<z.output<S>> {
    if (!this.#backend || !this.#guest) {
      throw acp.RequestError.invalidRequest(undefined, "sbx: initialize has to come first");
    }
    const { agent, vm } = this.#backend;
    const answer = await this.#guest.agent.request(method, params, { cancellationSignal: signal })
      .catch((error) => {
        if (error instanceof acp.RequestError) throw agentError(error, agent);
        throw errorOut(error instanceof SbxError ? error : brokeOff({ agent, vm }, error), method);
      });
    const checked = schema?.safeParse(answer ?? {});
    if (checked && !checked.success) {
      throw errorOut(
        new SbxError(
          "acp.failed",
          `${agent} in "${vm}" answered ${method} with something else than the protocol`,
          {
            hint: `sbx logs ${vm} shows more`,
          },
        ),
        method,
      );
    }
    return checked?.data as z.output<S>;
  }

  #files() {
    return { place: this.#place, access: this.#options.access };
  }

  #folderIn(cwd: string): string {
    const dir = this.#place.toGuest(cwd);
    if (dir !== undefined) return dir;
    throw acp.RequestError.invalidParams(
      undefined,
      `sbx: ${cwd} is outside of ${this.#place.dir}, the folder of this VM; start sbx acp in that folder`,
    );
  }

  #requireSession(id: string): void {
    if (!this.#sessions.has(id)) throw acp.RequestError.sessionNotFound(id);
  }

  #requireRoom(): void {
    if (this.#sessions.size < SESSIONS_MAX) return;
    throw acp.RequestError.invalidRequest(undefined, `sbx: more than ${SESSIONS_MAX} sessions are open`);
  }

  /**
   * The editor's MCP servers are programs of the host, with the person's keys in their variables and headers.
   */
  #leaveOut(servers: readonly { name: string }[]): void {
    if (servers.length === 0) return;
    const names = servers.map(({ name }) => name).join(", ");
    note(`sbx: the editor's MCP servers do not go into the VM (${names}): docs/guides/mcp-host.md`);
  }

  async #requireConsent(
    sessionId: string,
    path: string,
    newText: string,
    signal: AbortSignal,
  ): Promise<void> {
    const oldText = await textBefore(path);
    const { outcome } = await this.#editor.request("session/request_permission", {
      sessionId,
      toolCall: {
        toolCallId: `${OWN_CALL}write-${++this.#writes}`,
        title: `sbx asks: write ${path.slice(this.#place.dir.length + 1)} in your own folder?`,
        kind: "edit",
        status: "pending",
        content: [{ type: "diff", path, oldText, newText }],
        locations: [{ path }],
      },
      options: [
        { optionId: "once", name: "Write it", kind: "allow_once" },
        { optionId: "deny", name: "Leave it as it is", kind: "reject_once" },
      ],
    }, { cancellationSignal: signal });
    if (outcome.outcome === "selected" && outcome.optionId === "once") return;
    throw acp.RequestError.invalidParams(undefined, "sbx: the person did not allow to write this file");
  }

  /** Sends something to the editor; messages that wait there hold the agent up. */
  async #tell(send: () => Promise<void>): Promise<void> {
    this.#underWay++;
    try {
      await send();
    } finally {
      this.#underWay--;
      this.#taken.resolve();
      this.#taken = Promise.withResolvers();
    }
  }

  async #room(): Promise<void> {
    while (this.#underWay >= UNDER_WAY_MAX && !this.#ended.signal.aborted) await this.#taken.promise;
  }

  /**
   * Waits until the updates before an answer are with the editor: the SDK hands an
   * answer over faster than an update.
   */
  async #settled(): Promise<void> {
    await nextTask();
    while (this.#underWay > 0 && !this.#ended.signal.aborted) await this.#taken.promise;
  }
}

/** Waits until everything that is ready has run. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

function brokeOff({ agent, vm }: Pick<Backend, "agent" | "vm">, cause: unknown): SbxError {
  return new SbxError("acp.failed", `${agent} in "${vm}" broke off the connection`, {
    cause,
    hint: `sbx logs ${vm} shows more`,
  });
}
