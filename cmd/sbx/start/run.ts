/** `sbx run`: a program in a temporary VM; with `--from-dir` in a folder of the person. */
import type { CreateRequest, ExecRequest, RunResult, VmInfo } from "../../../lib/client/api/mod.ts";
import { type Arguments, type Command, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { connect } from "../connect.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { note, printJson } from "../../../lib/base/print/mod.ts";
import { stageTable, usageError } from "../output.ts";
import {
  EXIT_NOTE,
  INPUT_OPTION,
  PROGRAM_OPTIONS,
  programRequest,
  SBX_FAILED,
  streamProgram,
} from "../vm/program.ts";
import { programOfImage, pullNamedImage } from "../vm/image_option.ts";
import { whileQueued } from "../vm/queue.ts";
import { waitUntilRunning } from "../vm/new_vm.ts";
import { NEW_VM_OPTIONS, newVmOf } from "../vm/new_vm_options.ts";
import { inTemporaryVm } from "../vm/temporary.ts";
import {
  BRING_OPTIONS,
  bringFolder,
  collectWork,
  describePulled,
  formatBrought,
  FROM_DIR_OPTIONS,
} from "../files/repository.ts";
import { fromProjects, meetRequests, PROJECT_OPTION } from "../files/project_file.ts";
import { formatEvents } from "../record/events.ts";
import { count } from "../../../lib/base/text/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { changesOf, pullWork, sourcesOf } from "../../../lib/repo/mod.ts";
import { refusedIn } from "./agent_report.ts";
import { formatUnanswered, type Unanswered, unansweredOf } from "./unanswered.ts";
import { formatNotable } from "../files/diff_text.ts";

/**
 * Runs a program in the folder, and removes the VM; with `--pull` its work is taken first.
 *
 * @returns the program's exit code
 * @throws {SbxError} also where the work cannot be taken: the VM then stays
 */
async function runInFolder(
  client: Client,
  dir: string,
  args: Arguments,
  vm: CreateRequest,
  program: ExecRequest,
): Promise<number> {
  const { later, ...asked } = await fromProjects([dir], args);
  const given = Object.fromEntries(Object.entries(vm).filter(([, value]) => value !== undefined));
  const json = { ...asked, ...given, env: { ...asked.env, ...vm.env } };
  let keep = false;
  return await inTemporaryVm(client, json, {
    keeps: () => keep,
    async run({ id, ...created }) {
      await waitUntilRunning(client, { id, ...created });
      const brought = await bringFolder(client, created.name, dir, args, { place: args.text("to") });
      note(formatBrought(brought));
      await meetRequests(client, { id, name: created.name }, later);
      const json = { ...program, cwd: program.cwd ?? brought.place };
      const response = await client.send("POST", `/vms/${segment(id)}/exec`, {
        json,
        accept: "text/event-stream",
      });
      const code = await streamProgram(response);
      await noteUnanswered(client, { id, name: created.name });
      keep = args.has("pull");
      await takeWork(client, created.name, keep);
      keep = false;
      return code;
    },
  });
}

/** Questions of a run that no one answered; where they cannot be read, the result of the run stays. */
async function unansweredIn(
  client: Client,
  { id, name }: Pick<VmInfo, "id" | "name">,
): Promise<Unanswered[] | undefined> {
  try {
    return await unansweredOf(client, { name, session: id }, await refusedIn(client, id));
  } catch (error) {
    const { message } = asSbxError(error, "the request");
    note(`sbx: the questions of this run cannot be read: ${message}`);
  }
}

async function noteUnanswered(client: Client, vm: Pick<VmInfo, "id" | "name">): Promise<void> {
  for (const line of formatUnanswered(await unansweredIn(client, vm) ?? [])) note(line);
}

/** Takes the work, or reports how many changed files the VM's deletion lost. */
async function takeWork(client: Client, name: string, isWanted: boolean): Promise<void> {
  await using work = await collectWork(client, name);
  const units = await Promise.all(work.units.map(changesOf));
  if (isWanted) {
    note(await describePulled(await pullWork(work), work, false));
    for (const line of formatNotable(units)) note(line);
    return;
  }
  const files = units.reduce((sum, unit) => sum + unit.files.length, 0);
  if (files > 0) note(`sbx: ${count(files, "changed file")} went with the VM; --pull takes them`);
}

/** Options that mean nothing without a folder. */
const OF_FOLDERS = ["to", "with-secrets", "pull"];

export const command: Command = {
  name: "run",
  usage: "[OPTIONS] [-- CMD…]",
  summary: "run a program in a temporary VM",
  notes: ["With --image and without CMD it runs the image's own program.", EXIT_NOTE],
  options: [
    ...NEW_VM_OPTIONS,
    ...PROGRAM_OPTIONS,
    INPUT_OPTION,
    ...FROM_DIR_OPTIONS,
    ...BRING_OPTIONS,
    PROJECT_OPTION,
    { name: "pull", about: "with --from-dir: take the work before the VM is removed (sbx pull)" },
    { name: "verbose", short: "v", about: "print boot stages and events to stderr; times are UTC" },
    JSON_OPTION,
  ],
  program: true,
  failure: SBX_FAILED,
  examples: [
    "sbx run -- uname -a",
    "sbx run -e GREETING=hello -- sh -c 'echo $GREETING'",
    "sbx run --timeout 10 --json -- node --version",
    "sbx run --from-dir . --pull -- make test",
    "sbx run --image alpine:3 -- cat /etc/os-release",
  ],
  async run(args) {
    const dir = args.text("from-dir");
    if (dir !== undefined && (args.has("json") || args.has("verbose"))) {
      throw usageError(command, "--from-dir cannot be combined with --json or --verbose");
    }
    const lone = OF_FOLDERS.find((name) => dir === undefined && args.has(name));
    if (lone !== undefined) throw usageError(command, `--${lone} needs --from-dir`);
    if (dir !== undefined) await sourcesOf(dir);
    const asked = newVmOf(args);
    const { image, made } = await pullNamedImage(args);
    const own = args.program === undefined && made ? programOfImage(made) : undefined;
    const program = await programRequest(command, args, own, args.has("interactive"));
    const vm = { ...asked, ...image !== undefined && { image } };
    const client = await connect();
    if (dir !== undefined) return await runInFolder(client, dir, args, vm, program);
    const json = { ...program, ...vm };
    if (args.has("json")) {
      const result = await whileQueued(client, vm, client.json<RunResult>("POST", "/run", { json }));
      await printJson({ ...result, unanswered: await unansweredIn(client, result.vm) });
      return result.exit_code;
    }
    const response = await whileQueued(
      client,
      vm,
      client.send("POST", "/run", { json, accept: "text/event-stream" }),
    );
    let booted: VmInfo | undefined;
    const code = await streamProgram(response, {
      booted: (vm) => {
        booted = vm;
        if (args.has("verbose")) note(formatBoot(vm));
      },
      ...args.has("verbose") && { events: (events) => note(`\n${formatEvents(events)}`) },
    });
    if (booted) await noteUnanswered(client, booted);
    return code;
  },
};

/** Formats the accelerator and the boot stages of a VM. */
function formatBoot({ name, hypervisor, accelerator, boot_stages }: VmInfo): string {
  return `${name}: ${hypervisor}, ${accelerator ?? "accelerator unknown"}\n${stageTable(boot_stages)}\n`;
}
