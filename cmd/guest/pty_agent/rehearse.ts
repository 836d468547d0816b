/**
 * Runs a boot and common programs once before a template is saved, so that its copies start with warm memory.
 */
import { ignore } from "../../../lib/base/error/mod.ts";
import { timeLimit } from "../../../lib/base/time/mod.ts";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import type { GuestMessage } from "../../../lib/machine/guest/wire/mod.ts";
import { appeared, BootConfig, MOUNTED, ROOTED, SOURCE, trust } from "./boot.ts";
import { Executions } from "./exec.ts";
import { Terminals } from "./pty.ts";

const DIR = "/run/sbx/rehearsal";
const SOCKET = `${DIR}/host.sock`;
const TIMEOUT_MS = timeLimit(60_000);
const MODE = 0o644;
const SEED_BYTES = 64;
/** Programs that most copies run first: their files are in memory from then on. */
const PROGRAMS = [["/bin/sh", "-c", "echo"], ["true"]];
const SHELL = ["/bin/bash", "--login", "-c", "true"];

/**
 * Rehearses a boot, programs and a terminal, with this program as the host, before the machine is written
 * down: its copies then have all their first code compiled and loaded, which under emulation takes longer
 * than running it.
 */
export async function rehearse(): Promise<void> {
  const signals = [ROOTED, MOUNTED];
  await Promise.all(signals.map((path) => Deno.writeTextFile(path, "")));
  try {
    await perform();
  } finally {
    await Promise.all(signals.map((path) => Deno.remove(path)));
  }
}

/**
 * Does the same in a copy that waits for its VM: an emulator has to translate
 * what runs in each machine again.
 */
export async function rehearseCopy(): Promise<void> {
  // From here on all files are in place.
  for (const signal of [ROOTED, MOUNTED]) await appeared(signal);
  await perform();
}

async function perform(): Promise<void> {
  await Deno.mkdir(DIR);
  const listener = Deno.listen({ transport: "unix", path: SOCKET });
  try {
    await play(listener);
    await trust("");
  } finally {
    listener.close();
    // A failure of the steps above is the one to report.
    await Promise.allSettled([DIR, SOURCE].map((path) => Deno.remove(path, { recursive: true })));
  }
}

async function play(listener: Deno.UnixListener): Promise<void> {
  const connect = () => Deno.connect({ transport: "unix", path: SOCKET });
  const [agentEnd, hostEnd] = await Promise.all([connect(), listener.accept()]);
  const [agent, host] = [new FrameChannel(agentEnd), new FrameChannel(hostEnd)];
  const environment: Record<string, string> = {};
  const boot = new BootConfig(environment, true);
  const send = (message: GuestMessage) => agent.send(message);
  const guest = { environment, connect, send, visits: 0 };
  await rehearseBoot(boot, agent, host);
  const executions = new Executions(guest);
  // A program that the image lacks opens no connection; the next one takes its place.
  let coming: Promise<Deno.Conn> | undefined;
  for (const argv of PROGRAMS) {
    for (const stdin of [false, true]) {
      executions.start({ t: "Exec", id: "rehearsal", argv, stdin, timeout_ms: TIMEOUT_MS, cwd: "/" });
      const exited = untilExited(host);
      const conn = stdin ? await Promise.race([coming ??= listener.accept(), exited]) : undefined;
      if (conn) coming = undefined;
      const channel = conn && new FrameChannel(conn);
      await channel?.send({ stream: "stdin", end: true }).then(() => channel.next()).catch(
        ignore("a short program has ended, and its connection with it"),
      );
      await exited;
      channel?.close();
    }
  }
  const terminals = new Terminals(guest);
  terminals.open({ t: "PtyOpen", id: "rehearsal", argv: SHELL, cols: 80, rows: 24 });
  const terminal = await (coming ?? listener.accept());
  await host.next();
  for (const conn of [terminal, agentEnd, hostEnd]) conn.close();
}

/** Reads output until the program has ended. */
async function untilExited(host: FrameChannel): Promise<undefined> {
  for (let message = await host.next(); message; message = await host.next()) {
    if ((message as GuestMessage).t === "ExecExited") return;
  }
}

async function rehearseBoot(boot: BootConfig, agent: FrameChannel, host: FrameChannel): Promise<void> {
  // Draws no random numbers: a generator of this program would continue identically in all copies.
  const seed = new Uint8Array(SEED_BYTES).toBase64();
  const identity = { epoch_ms: Date.now(), seed, hostname: "localhost", machine_id: "" };
  await host.send({ t: "BootConfig", ...identity });
  await agent.next();
  await boot.begin({ t: "BootConfig", ...identity });
  await boot.writeFile({ t: "FileWrite", path: `${DIR}/file`, content: "", mode: MODE });
  await agent.send(await boot.finish());
  await host.next();
}
