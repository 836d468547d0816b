import type { Job, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { connect } from "../connect.ts";
import { usageError } from "../output.ts";
import { agentInVm, goOn } from "./agent.ts";
import { runningJob, wake } from "./agent_again.ts";

/** Most characters of a prompt: it is an argument of a program. */
const PROMPT_MAX = 64 * 1024;
/** Longest wait for a terminal to answer, in `ms`, before the prompt counts as typed. */
const ECHO_MS = 5000;

export const command: Command = {
  name: "send",
  usage: "VM TEXT [--json]",
  summary: "give the agent of a VM its next task",
  notes: [
    "An agent at its prompt gets the text typed, with enter. One that has ended starts again as a job, with its conversation.",
  ],
  options: [JSON_OPTION],
  words: { min: 2, max: 2 },
  completes: ["vms", []],
  examples: ['sbx send claude-app "now add a test"'],
  async run(args) {
    const [name, text] = args.words;
    if (text.trim() === "") throw usageError(command, "the text is empty");
    if (text.length > PROMPT_MAX) throw usageError(command, `the text has over ${PROMPT_MAX} characters`);
    const client = await connect();
    const info = await client.json<VmInfo>("GET", `/vms/${segment(name)}/info`);
    const profile = await agentInVm(info);
    const running = await runningJob(client, name, profile.agent);
    const job = running?.tty
      ? await typeInto(client, running, text)
      : await goOn(client, profile, await wake(client, info), { task: text, more: [] });
    if (args.has("json")) await printJson({ vm: info.name, job });
    else {
      await print(job === running ? `${info.name}: typed into job ${job.id}` : `${info.name}: job ${job.id}`);
      note(`sbx agent attach ${info.name} connects to it`);
    }
    return 0;
  },
};

/**
 * Types a line into the terminal of a job. Line breaks would each end a prompt: several lines
 * go in as one paste.
 */
async function typeInto(client: Client, job: Job, text: string): Promise<Job> {
  const socket = client.socket(`/terminal/${segment(job.vm)}`, { job: job.id });
  socket.binaryType = "arraybuffer";
  const opened = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<string>();
  socket.onmessage = () => opened.resolve();
  socket.onclose = ({ reason }) => closed.resolve(reason);
  const lost = async () => {
    throw new SbxError("terminal.unavailable", `the terminal of job ${job.id} cannot be opened`, {
      hint: `${await closed.promise || "it has ended"}; sbx jobs ${job.vm} shows its state`,
    });
  };
  // The first message confirms the terminal.
  await Promise.race([opened.promise, lost()]);
  socket.send(new TextEncoder().encode(pasted(text)));
  const echoed = Promise.withResolvers<void>();
  socket.onmessage = () => echoed.resolve();
  await Promise.race([echoed.promise, new Promise((resolve) => setTimeout(resolve, ECHO_MS))]);
  socket.send(new TextEncoder().encode("\r"));
  socket.close(1000);
  await closed.promise;
  return job;
}

/** Marks around text that was pasted (xterm's bracketed paste). */
const PASTE = { begin: "\x1b[200~", end: "\x1b[201~" };

/** Text as a terminal gets it: several lines as one paste, without characters that would end it. */
export function pasted(text: string): string {
  // deno-lint-ignore no-control-regex -- a terminal acts on these
  const clean = text.replaceAll(/[\x00-\x08\x0b-\x1f\x7f]/g, "");
  return clean.includes("\n") ? `${PASTE.begin}${clean}${PASTE.end}` : clean;
}
