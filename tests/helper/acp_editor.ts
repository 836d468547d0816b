/** An editor of the SDK that has `sbx acp` as its agent. */
import { assertEquals } from "@std/assert";
import * as acp from "@agentclientprotocol/sdk";
import type { EditorHandlers, Raw } from "./acp.ts";
import { limitChild } from "./child.ts";
import { fromRoot } from "./repo.ts";
import type { Sbx } from "./sbx.ts";

/** Time limit of one editor in `ms`; its VM boots meanwhile. */
const EDITOR_LIMIT_MS = 400_000;

/** An editor that has started `sbx acp`. */
export class Editor implements AsyncDisposable {
  readonly seen: { method: string; params: Raw }[] = [];
  readonly agent: acp.ClientConnection["agent"];
  sessionId = "";
  readonly #child: Deno.ChildProcess;

  constructor(sbx: Sbx, cwd: string, args: string[], readonly handlers: EditorHandlers) {
    this.#child = limitChild(
      new Deno.Command(fromRoot("bin/sbx"), {
        args: ["acp", ...args],
        cwd,
        env: sbx.env,
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn(),
      EDITOR_LIMIT_MS,
    );
    const app = acp.client({ name: "editor" });
    const note = (method: string) => ({ params }: { params: Raw }): Raw => {
      this.seen.push({ method, params });
      return this.handlers[method]?.(params);
    };
    app.onNotification("session/update", note("session/update"));
    for (const method of ["session/request_permission", "fs/read_text_file", "fs/write_text_file"] as const) {
      app.onRequest(method, note(method));
    }
    this.agent = app.connect(acp.ndJsonStream(this.#child.stdin, this.#child.stdout)).agent;
  }

  async open(cwd: string): Promise<Raw> {
    const started = await this.agent.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true }, terminal: true },
    });
    this.sessionId = (await this.agent.request("session/new", { cwd, mcpServers: [] })).sessionId;
    return started;
  }

  /** One turn. @returns the messages of the agent, and its updates of tool calls */
  async turn(text: string): Promise<{ text: string; calls: Raw[]; questions: Raw[] }> {
    const from = this.seen.length;
    const prompt = [{ type: "text" as const, text }];
    const ended = await this.agent.request("session/prompt", { sessionId: this.sessionId, prompt });
    const { stopReason } = ended as acp.PromptResponse;
    assertEquals(stopReason, "end_turn");
    const seen = this.seen.slice(from);
    const updates = seen.filter(({ method }) => method === "session/update").map(({ params }) =>
      params.update
    );
    return {
      text: updates.filter(({ sessionUpdate }) => sessionUpdate === "agent_message_chunk")
        .map(({ content }) => content.text).join(""),
      calls: updates.filter(({ sessionUpdate }) => sessionUpdate.startsWith("tool_call")),
      questions: seen.filter(({ method }) => method === "session/request_permission").map(({ params }) =>
        params
      ),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.stdin.close().catch(() => {});
    await this.#child.status;
  }
}
