/** The server of an agent for editors, in its VM: installed, started, and connected with its asks. */
import type { Backend, Folder } from "../../../lib/acp/mod.ts";
import type { AskList, AskResolve, AskView } from "../../../lib/client/api/mod.ts";
import { asSbxError, ignore, SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import type { Agent } from "../../../lib/config/profile/mod.ts";
import { openAskSocket } from "../connect.ts";
import { lastWords } from "../output.ts";
import { VmGuest } from "../files/repository.ts";
import { shortDenial } from "../rules/answer.ts";
import { type Exit, LogText } from "../vm/program.ts";
import { startPiped } from "../vm/program_pipe.ts";
import type { AgentVm } from "./agent_start.ts";

/** How an editor speaks with an agent, by its profile. */
export type Acp = NonNullable<Agent["acp"]>;

/** Exit codes of a program that is not there, or cannot run. */
const NOT_THERE = [126, 127];
/** Where adapters are in a VM: a folder for each set of packages. */
const ADAPTERS = "/usr/local/lib/sbx-acp";
/** Time to install an adapter, in `s`. */
const INSTALL_SECONDS = 900;
/**
 * Installs packages once. The agents that they bring a second copy of are left out: they are optional, and
 * hundreds of megabytes. No script of a package runs.
 */
const INSTALL = `set -e
[ ! -e "$0" ] || exit 0
rm -rf "$0.part"
npm install --prefix "$0.part" --omit=optional --omit=dev --ignore-scripts --no-audit --no-fund \\
  --no-update-notifier --loglevel=error "$@" >&2
mv "$0.part" "$0"`;

/** The server's program, with its adapter installed. @throws {SbxError} `acp.no_adapter` */
async function programOf(guest: VmGuest, { command, npm }: Acp): Promise<string[]> {
  if (npm.length === 0) return command;
  const dir = `${ADAPTERS}/${npm.join("+").replaceAll("/", "-")}`;
  note(`${guest.name}: ${npm.join(", ")} makes the agent's server for editors`);
  const { code, stderr } = await guest.run(["sh", "-c", INSTALL, dir, ...npm], INSTALL_SECONDS);
  if (code !== 0) {
    throw new SbxError(
      "acp.no_adapter",
      `npm cannot install ${npm.join(", ")} in "${guest.name}": ${lastWords(stderr)}`,
      {
        hint: `sbx net ${guest.name} shows the refused requests, and sbx asks the waiting ones`,
      },
    );
  }
  return ["sh", "-c", 'PATH="$0/node_modules/.bin:$PATH" exec "$@"', dir, ...command];
}

/** Starts the agent's server in its VM, and connects it. */
export async function serve(
  client: Client,
  { vm, agent, acp, folder }: {
    vm: AgentVm;
    agent: string;
    acp: Acp;
    folder: Folder;
  },
): Promise<Backend> {
  const command = await programOf(new VmGuest(client, vm.name), acp);
  const [input, output] = [new TransformStream<Uint8Array<ArrayBuffer>>(), new TransformStream<Uint8Array>()];
  const written = output.writable.getWriter();
  const log = new LogText();
  const pipe = await startPiped(client, vm.name, { command, cwd: vm.place, env: acp.env }, {
    stdout: (bytes) => written.write(bytes),
    stderr: (bytes) => {
      const text = log.push(bytes).trimEnd();
      if (text !== "") note(text);
      return Promise.resolve();
    },
  });
  pipe.sendInput(input.readable);
  const ended = pipe.exit.then(
    (exit) => endOf(exit, agent, vm.name),
    (error) => asSbxError(error, "the agent"),
  );
  ended.then(() => written.close()).catch(ignore("the connection is closed"));
  return {
    agent,
    vm: vm.name,
    folder,
    pipes: { readable: output.readable, writable: input.writable as WritableStream<Uint8Array> },
    ended,
    watchAsks: (see) => watchAsks(client, vm.id, see),
    answers: {
      denial: shortDenial,
      async answer({ ask_id, digest }, answer) {
        const json: AskResolve = { ...answer, digest };
        await client.json("POST", `/asks/${encodeURIComponent(ask_id)}/resolve`, { json });
      },
    },
    [Symbol.dispose]: () => pipe.close(),
  };
}

function endOf({ exit_code }: Exit, agent: string, vm: string): SbxError {
  return new SbxError("acp.ended", `the server of ${agent} in "${vm}" ended with ${exit_code}`, {
    hint: NOT_THERE.includes(exit_code)
      ? "the VM's image may be older than this sbx, or a rule blocked it (sbx why): build the image, and give --new"
      : `sbx logs ${vm} shows more`,
  });
}

/** Calls `see` for the asks of one VM, the ones already waiting first. */
function watchAsks(client: Client, session: string, see: (ask: AskView) => void): Disposable {
  const own = (ask: AskView) => ask.session_id === session && see(ask);
  const socket = openAskSocket(client, own);
  client.json<AskList>("GET", "/asks").then(({ asks }) => asks.forEach(own)).catch((error) => {
    const { message } = asSbxError(error, "the asks that wait");
    note(`sbx: pending asks cannot be read: ${message}`);
  });
  return { [Symbol.dispose]: () => socket.close() };
}
