/**
 * sbx-pty-agent: the agent of sbx-process in the guest. Applies the boot configuration, then runs programs
 * and terminals until the VM ends. It runs as root in a guest without a network card; the host decides what
 * it may do.
 */
import { shiftClock, writeDataOut } from "../../../ffi/libc/machine.ts";
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import {
  connectHost,
  GUEST_VERSION,
  type GuestMessage,
  type HostMessage,
} from "../../../lib/machine/guest/wire/mod.ts";
import { BootConfig } from "./boot.ts";
import { connectControl, ejectVsock, reconnectControl } from "./connect.ts";
import { Executions } from "./exec.ts";
import { Hold } from "./hold.ts";
import { awaitFile, type Host, passKey, remindWorkspace, switchTraceOn } from "./host.ts";
import { Terminals } from "./pty.ts";
import { rehearse, rehearseCopy } from "./rehearse.ts";

// A failure in one program or terminal must not end the VM; init writes this to the console.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  console.error("sbx-pty-agent:", event.reason);
});

/** Variables of every program in this VM. */
const environment: Record<string, string> = {};
let control: FrameChannel;
let boot: BootConfig;
const send = (message: GuestMessage) => control.send(message);
const host: Host = {
  environment,
  connect: (port) => connectHost(port),
  send,
  visits: 0,
};
const executions = new Executions(host);
const terminals = new Terminals(host);
const hold = new Hold();

// Until the host leaves without a notice: then the agent ends, and init stops the machine.
const first = await connectControl(rehearse);
for (let conn = first.conn, isFirst = true;; conn = await reconnectControl(), isFirst = false) {
  control = new FrameChannel(conn);
  boot = new BootConfig(environment, first.waited || !isFirst);
  host.visits++;
  host.away?.resolve();
  host.away = undefined;
  if (!isFirst) remindWorkspace();
  await send({ t: "Ready", version: GUEST_VERSION });
  const left = await serve(isFirst && !first.waited);
  if (!left) Deno.exit(1);
}

/** Serves the host until its connection ends. @returns whether it announced to leave for a while */
async function serve(startsNetwork: boolean): Promise<boolean> {
  for (let message = await nextMessage(); message !== null; message = await nextMessage()) {
    if (message.t === "Detach") {
      await leave();
      return true;
    }
    await handle(message, startsNetwork).catch((error) =>
      console.error(`sbx-pty-agent: ${message?.t}:`, error)
    );
  }
  return false;
}

/** @returns null when the host has left, however its connection ended */
async function nextMessage(): Promise<HostMessage | null> {
  return await control.next().catch(() => null) as HostMessage | null;
}

async function handle(message: HostMessage, startsNetwork: boolean): Promise<void> {
  switch (message.t) {
    case "Rehearse":
      return rehearseCopy();
    case "BootConfig":
      await boot.begin(message);
      return hold.release();
    case "SetEnv":
      return boot.setVariable(message.key, message.value);
    case "FileWrite":
      return boot.writeFile(message);
    case "BootConfigDone": {
      const result = await boot.finish();
      // Root's programs may have switched it off since: that is a gap, which sbx-activity reports.
      if (host.visits === 1) switchTraceOn();
      await send(result);
      if (startsNetwork) startNetwork();
      return;
    }
    case "Exec":
      executions.start(message);
      return;
    case "ExecAdopt":
      return await executions.adopt(message.id);
    case "ExecKill":
      executions.kill(message.id);
      return terminals.kill(message.id);
    case "PtyOpen":
      terminals.open(message);
      return;
    case "PtyResize":
      return terminals.resize(message);
    case "PtyClose":
      return terminals.close(message.id);
    case "AwaitFile":
      awaitFile(message, send);
      return;
    case "Activity":
      return passKey(message.key);
    case "Clock":
      return send({ t: "Clock", id: message.id, epoch_ms: Date.now() });
    case "ClockShift":
      return shiftClock(message.ms);
    case "Shutdown":
      return shutDown();
  }
}

/** Signals init to start sbx-net-proxy, which is kept out of the boot. */
function startNetwork(): void {
  Deno.writeTextFile("/run/sbx/booted", "\n").catch((error) =>
    console.error("sbx-pty-agent: the network does not start:", error)
  );
}

/**
 * Lets go of the host, so that the machine can be written down; its disk has all
 * data, in case its memory gets lost.
 */
async function leave(): Promise<void> {
  await writeDataOut();
  executions.abandonAll();
  host.away = Promise.withResolvers();
  terminals.leave();
  await hold.take();
  ejectVsock();
}

/** Writes all data to the disk and the workspace, then ends; init stops the machine. */
async function shutDown(): Promise<void> {
  executions.killAll();
  await writeDataOut();
  Deno.exit(0);
}
