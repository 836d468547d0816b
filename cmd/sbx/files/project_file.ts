/** The project file of a folder that a new VM gets: what narrows holds at once, the rest waits for a person. */
import type { CreateRequest } from "../../../lib/client/api/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Project } from "../../../lib/config/project/mod.ts";

/** Option of commands that make a VM for a folder. */
export const PROJECT_OPTION: Option = {
  name: "no-project",
  about: "ignore the requests of .sbx.toml; its rules, which only take away, hold",
};

/** Changes of a request by project files; the request's own values win. */
export type FromProject =
  & Pick<CreateRequest, "project" | "env" | "cpus" | "ram_mb" | "disk_gb" | "profile_id">
  & {
    /** of the VM, to forward once it runs */
    ports?: number[];
  };

/**
 * Changes that the project files of folders make to a new VM.
 *
 * @throws {SbxError} `project.invalid`; `project.unapproved`: a person must look first
 */
export async function fromProjects(dirs: readonly string[], args: Arguments): Promise<FromProject> {
  const { readProject, widenings } = await import("../../../lib/config/project/mod.ts");
  const { corp, requiresProject, requireWidening } = await corpLimits();
  const files: NonNullable<CreateRequest["project"]>[] = [];
  const env: Record<string, string> = {};
  let size: Omit<FromProject, "project" | "env" | "ports"> = {};
  const ports = new Set<number>();
  for (const dir of dirs) {
    const project = await readProject(dir);
    if (requiresProject(corp) && (!project || args.has("no-project"))) throw missing(project?.dir ?? dir);
    if (!project) continue;
    files.push(project.rules);
    if (args.has("no-project")) continue;
    if (widenings(project).length > 0) requireWidening(corp, project.dir);
    await requireApproval(project);
    Object.assign(env, project.env);
    const { vm: { cpus, ram_gb, disk_gb }, profile: profile_id } = project;
    for (const port of project.ports) ports.add(port);
    size = { cpus, ram_mb: ram_gb === undefined ? undefined : ram_gb * 1024, disk_gb, profile_id, ...size };
  }
  const { joinNarrowing } = await import("../../../lib/policy/mod.ts");
  // Two folders may have rules of one name.
  const rules = joinNarrowing(...files);
  return {
    ...rules.length > 0 && { project: rules },
    ...Object.keys(env).length > 0 && { env },
    ...ports.size > 0 && { ports: [...ports] },
    ...Object.fromEntries(Object.entries(size).filter(([, value]) => value !== undefined)),
  };
}

/** Corp as this command finds it; loaded only where a folder is brought in. */
async function corpLimits() {
  const [{ openCorp }, { requiresProject, requireWidening }] = await Promise.all([
    import("../../../lib/home/mod.ts"),
    import("../../../lib/config/corp/mod.ts"),
  ]);
  return { corp: await openCorp(home()).load(), requiresProject, requireWidening };
}

function missing(dir: string): SbxError {
  return new SbxError("project.required", `corp requires the .sbx.toml of ${dir}, and it is not used`, {
    hint: "write one, and leave out --no-project: docs/guides/project-file.md",
  });
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

/** A person's answer on the terminal. */
export function isYes(question: string): boolean {
  return /^y(es)?$/i.test(prompt(`${question} [y/N]`)?.trim() ?? "");
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
