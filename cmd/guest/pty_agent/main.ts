/**
 * sbx-pty-agent: the agent of sbx-process in the guest. Applies the boot configuration, then runs programs
 * and terminals until the VM ends. It runs as root in a guest without a network card; the host decides what
 * it may do.
 */
import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import { type GuestMessage, type HostMessage, PORTS } from "../../../lib/guest/wire/mod.ts";
import { BootConfig } from "./boot.ts";
import { connectControl, connectHost } from "./connect.ts";
import { Executions } from "./exec.ts";
import { awaitFile } from "./file.ts";
import { Terminals } from "./pty.ts";
import { rehearse } from "./rehearse.ts";

/** Version of the wire; the host refuses a guest of another version. */
const AGENT_VERSION = "3";

// A failure in one program or terminal must not end the VM; init writes this to the console.
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  console.error("sbx-pty-agent:", event.reason);
});

const { conn, waited } = await connectControl(rehearse);
const control = new FrameChannel(conn);
const send = (message: GuestMessage) => control.send(message);

const boot = new BootConfig(waited);
const executions = new Executions({
  environment: boot.environment,
  connect: () => connectHost(PORTS.exec),
  send,
});
const terminals = new Terminals({
  environment: boot.environment,
  connect: () => connectHost(PORTS.terminal),
  send,
});

await send({ t: "Ready", version: AGENT_VERSION });
// Only the end of this connection ends the agent, and init stops the machine then.
for (let message = await nextMessage(); message !== null; message = await nextMessage()) {
  await handle(message).catch((error) => console.error(`sbx-pty-agent: ${message?.t}:`, error));
}
Deno.exit(1);

async function nextMessage(): Promise<HostMessage | null> {
  return await control.next().catch(() => null) as HostMessage | null;
}

async function handle(message: HostMessage): Promise<void> {
  switch (message.t) {
    case "BootConfig":
      return boot.begin(message);
    case "SetEnv":
      boot.environment[message.key] = message.value;
      return;
    case "FileWrite":
      return boot.writeFile(message);
    case "BootConfigDone":
      await send(await boot.finish());
      return startNetwork();
    case "Exec":
      executions.start(message);
      return;
    case "ExecKill":
      return executions.kill(message.id);
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
    case "Shutdown":
      return shutDown();
  }
}

/** Signals init to start sbx-net-proxy, which is kept out of the boot. */
function startNetwork(): void {
  Deno.writeTextFile("/run/sbx/booted", "\n").catch(() => {});
}

/** Writes all data to the disk and the workspace, then ends; init stops the machine. */
async function shutDown(): Promise<void> {
  executions.killAll();
  await new Deno.Command("sync").output();
  Deno.exit(0);
}
