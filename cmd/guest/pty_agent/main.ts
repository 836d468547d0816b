/**
 * sbx-pty-agent: the guest's half of a VM. It takes its boot configuration from sbx-process, then runs programs and
 * terminals for it until the VM ends. It runs as root in a guest that has no network card; what it may do is decided
 * on the host.
 */
import { FrameChannel } from "../../../lib/base/wire/channel.ts";
import { type GuestMessage, HOST_CID, type HostMessage, PORTS } from "../../../lib/guest/messages.ts";
import { BootConfig } from "./boot.ts";
import { Executions } from "./exec.ts";
import { awaitFile } from "./file.ts";
import { Terminals } from "./pty.ts";

/** Version of this wire; the host refuses a guest that it does not know. */
const AGENT_VERSION = "1";

const connect = (port: number) => Deno.connect({ transport: "vsock", cid: HOST_CID, port });

const control = new FrameChannel(await connect(PORTS.control));
const send = (message: GuestMessage) => control.send(message);

const boot = new BootConfig();
const executions = new Executions({
  environment: boot.environment,
  connect: () => connect(PORTS.exec),
  send,
});
const terminals = new Terminals({
  environment: boot.environment,
  connect: () => connect(PORTS.terminal),
  send,
});

await send({ t: "Ready", version: AGENT_VERSION });
executions.warm();

for (let message = await control.next(); message !== null; message = await control.next()) {
  await handle(message as HostMessage);
}

async function handle(message: HostMessage): Promise<void> {
  switch (message.t) {
    case "BootConfig":
      return boot.setClock(message.epoch_ms);
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
    case "AwaitFile":
      awaitFile(message, send);
      return;
    case "Shutdown":
      return shutDown();
  }
}

/** Init waits for this before it starts sbx-net-proxy, so that a boot does not have to. */
function startNetwork(): void {
  Deno.writeTextFile("/run/sbx/booted", "\n").catch(() => {});
}

/** Everything that was written reaches the disk and the workspace; then init stops the machine. */
async function shutDown(): Promise<void> {
  executions.killAll();
  await new Deno.Command("sync").output();
  Deno.exit(0);
}
