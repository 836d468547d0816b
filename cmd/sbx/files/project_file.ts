/**
 * The project file of a folder that a new VM gets: what narrows holds at once, the rest waits for a person.
 */
import type { CreateRequest, VmSummary } from "../../../lib/client/api/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { type Client, segment } from "../../../lib/client/mod.ts";
import { isYes } from "../confirm.ts";
import { usageError } from "../output.ts";
import { remoteHost } from "../host.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Project, ProjectPackages } from "../../../lib/config/project/mod.ts";

/** Option of commands that make a VM for a folder. */
export const PROJECT_OPTION: Option = {
  name: "no-project",
  about: "ignore the requests of .sbx.toml; its rules, which only take away, hold",
};

/** Changes of a request by project files; the request's own values win. */
export type FromProject =
  & Pick<CreateRequest, "project" | "folders" | "env" | "cpus" | "ram_mb" | "disk_gb" | "profile_id">
  & { later?: LaterRequests };

/** Requests of project files that need a running VM. */
export interface LaterRequests {
  /** of the VM, to forward */
  ports: number[];
  /** to install */
  packages: ProjectPackages;
}

/**
 * Changes that the project files of folders make to a new VM.
 *
 * @throws {SbxError} `project.invalid`; `project.unapproved`: a person must look first
 */
export async function fromProjects(dirs: readonly string[], args: Arguments): Promise<FromProject> {
  const { readProject, widenings } = await import("../../../lib/config/project/mod.ts");
  const { corp, projectMissing, requiresProject, requireWidening } = await corpLimits();
  const files: NonNullable<CreateRequest["project"]>[] = [];
  const env: Record<string, string> = {};
  let size: Omit<FromProject, "project" | "folders" | "env" | "later"> = {};
  const folders: NonNullable<CreateRequest["folders"]> = [];
  const [ports, apt, npm] = [new Set<number>(), new Set<string>(), new Set<string>()];
  for (const dir of dirs) {
    const project = await readProject(dir);
    if (requiresProject(corp) && (!project || args.has("no-project"))) {
      throw projectMissing(project?.dir ?? dir);
    }
    folders.push({ dir: project?.dir ?? await Deno.realPath(dir), with_requests: !args.has("no-project") });
    if (!project) continue;
    files.push(project.rules);
    if (args.has("no-project")) continue;
    if (widenings(project).length > 0) requireWidening(corp, project.dir);
    await requireApproval(project);
    Object.assign(env, project.env);
    const { vm: { cpus, ram_gb, disk_gb }, profile: profile_id } = project;
    for (const port of project.ports) ports.add(port);
    for (const name of project.packages.apt) apt.add(name);
    for (const name of project.packages.npm) npm.add(name);
    size = { cpus, ram_mb: ram_gb === undefined ? undefined : ram_gb * 1024, disk_gb, profile_id, ...size };
  }
  const { joinNarrowing } = await import("../../../lib/policy/mod.ts");
  // Two folders may have rules of one name.
  const rules = joinNarrowing(...files);
  const later = { ports: [...ports], packages: { apt: [...apt], npm: [...npm] } };
  return {
    ...rules.length > 0 && { project: rules },
    // The service reads them again, where they are on its machine.
    ...remoteHost() === undefined && folders.length > 0 && { folders },
    ...Object.keys(env).length > 0 && { env },
    ...ports.size + apt.size + npm.size > 0 && { later },
    ...Object.fromEntries(Object.entries(size).filter(([, value]) => value !== undefined)),
  };
}

/** Corp as this command finds it; loaded only where a folder is brought in. */
async function corpLimits() {
  const [{ openCorp }, limits] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/config/corp/mod.ts"),
  ]);
  return { ...limits, corp: await openCorp(home()).load() };
}

async function requireApproval(project: Project): Promise<void> {
  const { approvalOf, approve, isApproved } = await import("../../../lib/config/project/mod.ts");
  const approval = await approvalOf(home(), project);
  if (isApproved(project, approval)) return;
  if (Deno.stdin.isTerminal()) {
    note(await describeProject(project));
    if (isYes(`approve this for ${plain(project.dir)}?`)) {
      await approve(home(), project);
      return;
    }
  }
  throw new SbxError(
    "project.unapproved",
    `.sbx.toml of ${project.dir} asks for more than was approved for it: nothing was started`,
    { hint: `sbx project approve ${project.dir} shows it; --no-project ignores its requests` },
  );
}

/** A project file for people: its rules, and what waits, against the last approval. */
export async function describeProject(project: Project): Promise<string> {
  const { approvalOf, changesOf, isApproved } = await import("../../../lib/config/project/mod.ts");
  const approval = await approvalOf(home(), project);
  const changes = isApproved(project, approval) ? [] : changesOf(project, approval);
  const waits = isApproved(project, approval)
    ? ["waits for approval: nothing"]
    : [`waits for approval, against ${approval ? `the one of ${approval.at}` : "none before"}:`];
  return [
    `${project.dir}/.sbx.toml, sha256 ${project.sha256}, owner ${project.owner ?? "unknown"}`,
    ...project.rules.map(({ id, action, match, line }) =>
      `holds: rule ${id} (line ${line}): ${action} ${match}`
    ),
    ...waits,
    ...changes.length > 0 || isApproved(project, approval)
      ? changes
      : ["  no other values, but other bytes than were approved"],
  ].map((line) => plain(line)).join("\n");
}

/**
 * Installs packages and forwards ports in a VM that runs and has its folders.
 * @throws {SbxError} `project.packages`
 */
export async function meetRequests(
  client: Client,
  vm: Pick<VmSummary, "id" | "name">,
  later?: LaterRequests,
): Promise<void> {
  if (!later) return;
  const { apt, npm } = later.packages;
  if (apt.length > 0) await install(client, vm, ["sh", "-ec", APT, "sh", ...apt]);
  if (npm.length > 0) {
    await install(client, vm, ["npm", "install", "--global", "--ignore-scripts", "--", ...npm]);
  }
  if (later.ports.length === 0) return;
  const { openPorts } = await import("../vm/lifecycle.ts");
  await openPorts(client, vm, { ports: later.ports.map((port) => ({ port })) });
}

/** Installs Debian packages: the lists of an image may be old, or absent. */
const APT = "export DEBIAN_FRONTEND=noninteractive; apt-get -q update; " +
  'apt-get -q install -y --no-install-recommends -- "$@"';

async function install(client: Client, vm: Pick<VmSummary, "id" | "name">, command: string[]): Promise<void> {
  const [{ streamAside }, { showAsks }] = await Promise.all([
    import("../vm/program.ts"),
    import("../vm/shown_asks.ts"),
  ]);
  const names = command.slice(command[0] === "sh" ? 4 : 5);
  note(`sbx: ${vm.name}: installing ${names.join(", ")}, as .sbx.toml asks`);
  using _asks = showAsks(client, vm.id);
  const response = await client.send("POST", `/vms/${segment(vm.id)}/exec`, {
    json: { command, user: "root", cwd: "/" },
    accept: "text/event-stream",
  });
  const code = await streamAside(response);
  if (code === 0) return;
  throw new SbxError(
    "project.packages",
    `the packages of .sbx.toml were not installed in "${vm.name}" (exit ${code})`,
    {
      hint: `sbx net ${vm.name} shows what was refused; in a VM that stays, sbx exec ${vm.name} -- ${
        command[0] === "sh" ? "apt-get install -y" : "npm install --global"
      } ${names.join(" ")} tries again`,
    },
  );
}

/**
 * Words of a command that takes `[AGENT] [DIR]`: without an agent it is the one that the
 * folder's project file asks for.
 *
 * @throws {SbxError} `project.unapproved`; `usage.invalid`: no agent
 */
export async function agentAndFolder(
  command: Command,
  args: Arguments,
): Promise<{ id: string; dir: string }> {
  const [first, second] = args.words;
  const isFolder = first === undefined || /^[.~]|\//.test(first);
  if (!isFolder) return { id: first, dir: second ?? "." };
  if (second !== undefined) {
    throw usageError(command, `"${first}" is not an agent`, "sbx agent list shows the agents");
  }
  const dir = first ?? ".";
  const { readProject } = await import("../../../lib/config/project/mod.ts");
  const project = args.has("no-project") ? undefined : await readProject(dir);
  if (project?.agent === undefined) {
    const why = args.has("no-project") ? "--no-project ignores .sbx.toml" : `.sbx.toml of ${dir} names none`;
    throw usageError(command, `no agent is named, and ${why}`, "sbx agent list shows the agents");
  }
  const { corp, requireWidening } = await corpLimits();
  requireWidening(corp, project.dir);
  await requireApproval(project);
  return { id: project.agent, dir };
}
