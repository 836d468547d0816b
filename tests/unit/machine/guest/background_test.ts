/**
 * Programs that leave children behind: they end with their main process, their output
 * whole, and the children go on.
 */
import { assert, assertEquals } from "@std/assert";
import { Executions } from "../../../../cmd/guest/pty_agent/exec.ts";
import type { Host } from "../../../../cmd/guest/pty_agent/host.ts";
import { Terminals } from "../../../../cmd/guest/pty_agent/pty.ts";
import { FrameChannel } from "../../../../lib/base/wire/mod.ts";
import type { GuestMessage } from "../../../../lib/machine/guest/wire/mod.ts";
import { eventually } from "../../../helper/sbx.ts";

/** Time that the children would go on for, in seconds: longer than a test may take. */
const LONG = 120;

/** The agent's programs and terminals, with a host on a socket that keeps what it is sent. */
class Agent {
  readonly #listener: Deno.Listener;
  readonly #ended = Promise.withResolvers<GuestMessage>();
  readonly #received: Promise<void>[] = [];
  readonly dir = Deno.makeTempDirSync();
  readonly executions: Executions;
  readonly terminals: Terminals;
  output = "";
  /** settles when output may be taken; the client is slow until then */
  taking: Promise<void> = Promise.resolve();

  constructor(isRaw = false) {
    const path = `${this.dir}/host.sock`;
    const listener = this.#listener = Deno.listen({ transport: "unix", path });
    const host: Host = {
      environment: { PATH: "/usr/bin:/bin" },
      connect: () => Deno.connect({ transport: "unix", path }),
      send: (message) => Promise.resolve(this.#take(message)),
      visits: 0,
    };
    this.executions = new Executions(host);
    this.terminals = new Terminals(host);
    this.#accept(listener, isRaw);
  }

  async #accept(listener: Deno.Listener, isRaw: boolean) {
    for await (const conn of listener) {
      this.#received.push(isRaw ? this.#readBytes(conn) : this.#readFrames(new FrameChannel(conn)));
    }
  }

  async #readBytes(conn: Deno.Conn) {
    await this.taking;
    for await (const bytes of conn.readable) this.output += new TextDecoder().decode(bytes);
  }

  async #readFrames(channel: FrameChannel) {
    await this.taking;
    for (let frame = await channel.next(); frame; frame = await channel.next()) {
      const { data } = frame as { data?: string };
      if (data) this.output += atob(data);
    }
    channel.close();
  }

  #take(message: GuestMessage): void {
    if (message.t === "ExecInline") this.output += atob(message.data);
    if (message.t === "ExecExited" || message.t === "PtyExited") this.#ended.resolve(message);
  }

  /** Runs a line of shell. @returns its exit code once all of its output has come */
  async run(line: string, more: { timeout_ms?: number; stdin?: boolean } = {}): Promise<number> {
    const argv = ["sh", "-c", line];
    this.executions.start({ t: "Exec", id: "a", argv, cwd: this.dir, stdin: false, ...more });
    return await this.ended();
  }

  async ended(): Promise<number> {
    const { exit_code } = await this.#ended.promise as Extract<GuestMessage, { t: "ExecExited" }>;
    await Promise.all(this.#received);
    return exit_code;
  }

  /** The pid that a child wrote. */
  async child(): Promise<number> {
    await eventually("the child runs", () => this.#exists("child"));
    return Number(await Deno.readTextFile(`${this.dir}/child`));
  }

  async #exists(name: string): Promise<boolean> {
    return (await Deno.readTextFile(`${this.dir}/${name}`).catch(() => "")).endsWith("\n");
  }

  async wrote(name: string): Promise<void> {
    await eventually(`the child wrote ${name}`, () => this.#exists(name));
  }

  async dispose(): Promise<void> {
    this.#listener.close();
    const pid = Number(await Deno.readTextFile(`${this.dir}/child`).catch(() => "0"));
    if (pid) { for (const target of [-pid, pid]) kill(target); }
    await Deno.remove(this.dir, { recursive: true });
  }
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // ended already
  }
}

function isRunning(pid: number): boolean {
  try {
    return !/\) Z /.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return false;
  }
}

const CHILD = (rest: string) => `sh -c 'echo $$ >child; ${rest}'`;

for (const [name, start] of [["in its session", ""], ["in a session of its own", "setsid "]]) {
  Deno.test(`a program ends while its child ${name} goes on`, async () => {
    const agent = new Agent();
    try {
      const code = await agent.run(`${start}${CHILD(`exec sleep ${LONG}`)} & echo started; exit 7`);
      assertEquals([code, agent.output], [7, "started\n"]);
      assert(isRunning(await agent.child()));
    } finally {
      await agent.dispose();
    }
  });
}

Deno.test("a child that writes on and on goes on, and what it wrote late is dropped", async () => {
  const agent = new Agent();
  try {
    const loop = "until [ -e go ]; do sleep 0.02; done; yes | head -c 500000; echo >done; sleep " + LONG;
    assertEquals(await agent.run(`${CHILD(loop)} & until [ -e child ]; do :; done; echo started; exit 3`), 3);
    assertEquals(agent.output, "started\n");
    await Deno.writeTextFile(`${agent.dir}/go`, "");
    await agent.wrote("done");
    assertEquals(agent.output, "started\n");
    assert(isRunning(await agent.child()));
  } finally {
    await agent.dispose();
  }
});

Deno.test("output is whole for a client that takes it late, and a child that never stops writing ends nothing", async () => {
  const agent = new Agent();
  try {
    const slow = Promise.withResolvers<void>();
    agent.taking = slow.promise;
    const running = agent.run(`seq 10000; ${CHILD("exec yes")} & until [ -e child ]; do :; done; exit 4`);
    await agent.child();
    slow.resolve();
    assertEquals(await running, 4);
    const lines = agent.output.split("\n").filter((line) => line !== "y" && line !== "");
    assertEquals([lines.length, lines[0], lines.at(-1)], [10000, "1", "10000"]);
    assert(isRunning(await agent.child()));
  } finally {
    await agent.dispose();
  }
});

Deno.test("the last words of a child that ends a moment after its program are kept", async () => {
  const agent = new Agent();
  try {
    assertEquals(await agent.run("(sleep 0.1; echo late) & echo first; exit 5"), 5);
    assertEquals(agent.output, "first\nlate\n");
  } finally {
    await agent.dispose();
  }
});

Deno.test("a time limit is no longer the program's once it has ended", async () => {
  const agent = new Agent();
  try {
    const code = await agent.run(`${CHILD(`exec sleep ${LONG}`)} & exit 6`, { timeout_ms: 60_000 });
    assertEquals([code, isRunning(await agent.child())], [6, true]);
  } finally {
    await agent.dispose();
  }
});

Deno.test("a terminal ends with its program while a child that has it open goes on", async () => {
  const agent = new Agent(true);
  try {
    const loop = `until [ -e go ]; do sleep 0.02; done; echo >done; sleep ${LONG}`;
    const line = `setsid ${CHILD(loop)} & until [ -e child ]; do :; done; seq 3000; exit 7`;
    const argv = ["sh", "-c", line];
    agent.terminals.open({ t: "PtyOpen", id: "a", argv, cwd: agent.dir, cols: 80, rows: 24 });
    assertEquals(await agent.ended(), 7);
    const lines = agent.output.trimEnd().split("\r\n");
    assertEquals([lines.length, lines.at(-1)], [3000, "3000"]);
    await Deno.writeTextFile(`${agent.dir}/go`, "");
    await agent.wrote("done");
    assert(isRunning(await agent.child()));
  } finally {
    await agent.dispose();
  }
});

Deno.test("a terminal whose child never stops writing ends with its program", async () => {
  const agent = new Agent(true);
  try {
    const line = `seq 3000; setsid ${CHILD("exec yes")} & until [ -e child ]; do :; done; exit 8`;
    agent.terminals.open({
      t: "PtyOpen",
      id: "a",
      argv: ["sh", "-c", line],
      cwd: agent.dir,
      cols: 80,
      rows: 24,
    });
    assertEquals(await agent.ended(), 8);
    const lines = agent.output.split("\r\n").filter((line) => /\d$/.test(line));
    assertEquals([lines.length, lines.at(-1)], [3000, "3000"]);
  } finally {
    await agent.dispose();
  }
});

Deno.test("a program that the host left is reported again: its output from there on, and its end", async () => {
  const agent = new Agent();
  try {
    const go = `${agent.dir}/go`;
    const line = `echo before; until [ -e ${go}1 ]; do sleep 0.05; done; echo away; touch ${go}2
      until [ -e ${go}3 ]; do sleep 0.05; done; echo after; exit 5`;
    const ended = agent.run(line);
    await eventually("its first output", () => agent.output === "before\n");
    agent.executions.abandonAll();
    await Deno.writeTextFile(`${go}1`, "");
    await eventually("it goes on", () => Deno.stat(`${go}2`).then(() => true, () => false));
    await agent.executions.adopt("a");
    await Deno.writeTextFile(`${go}3`, "");
    assertEquals(await ended, 5);
    assert(agent.output.endsWith("after\n") && agent.output.startsWith("before\n"), agent.output);
  } finally {
    await agent.dispose();
  }
});

Deno.test("a program that has ended while the host was away has an end with an error", async () => {
  const agent = new Agent();
  try {
    await agent.executions.adopt("a");
    assertEquals(await agent.ended(), 126);
  } finally {
    await agent.dispose();
  }
});
