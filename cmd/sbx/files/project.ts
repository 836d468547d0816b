import { type Command, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import {
  approvalOf,
  approvalsIn,
  approve,
  changesOf,
  forget,
  isApproved,
  type Project,
  readProject,
} from "../../../lib/config/project/mod.ts";
import { isYes } from "../confirm.ts";
import { table } from "../output.ts";
import { describeProject } from "./project_file.ts";

const SHOW: Command = {
  name: "project show",
  usage: "[DIR] [--json]",
  summary: "show the .sbx.toml of a folder, and its parts that wait for approval",
  options: [JSON_OPTION],
  words: { min: 0, max: 1 },
  completes: ["folders"],
  examples: ["sbx project show", "sbx project show ~/project --json"],
  async run(args) {
    const project = await projectOf(args.words[0] ?? ".");
    await (args.has("json") ? printJson(await viewOf(project)) : print(await describeProject(project)));
    return 0;
  },
};

const APPROVE: Command = {
  name: "project approve",
  usage: "[DIR] [--hash SHA256] [--json]",
  summary: "approve the requests in a folder's .sbx.toml, as it is now",
  notes: ["Without a terminal, --hash names the bytes that were looked at; sbx project show has it."],
  options: [
    { name: "hash", value: "SHA256", about: "approve these bytes of the file, and no others" },
    JSON_OPTION,
  ],
  words: { min: 0, max: 1 },
  completes: ["folders"],
  examples: ["sbx project approve ."],
  async run(args) {
    const project = await projectOf(args.words[0] ?? ".");
    const hash = args.text("hash");
    if (hash !== undefined && hash !== project.sha256) {
      throw new SbxError("project.unapproved", `${project.dir}/.sbx.toml has other bytes than that hash`, {
        hint: `look at it again: sbx project show ${project.dir}`,
      });
    }
    if (hash === undefined) {
      if (!args.has("json")) await print(await describeProject(project));
      if (!Deno.stdin.isTerminal()) {
        throw new SbxError(
          "project.unapproved",
          "without a terminal, --hash must name the bytes to approve",
          {
            hint: `sbx project approve ${project.dir} --hash ${project.sha256}`,
          },
        );
      }
      if (!isYes("approve this?")) return 1;
    }
    await approve(home(), project);
    await (args.has("json") ? printJson(await viewOf(project)) : print(`approved for ${project.dir}`));
    return 0;
  },
};

const FORGET: Command = {
  name: "project forget",
  usage: "DIR",
  summary: "take the approval of a folder's .sbx.toml back",
  options: [],
  words: { min: 1, max: 1 },
  completes: ["folders"],
  examples: ["sbx project forget ."],
  async run(args) {
    // The folder may be gone.
    const dir = await Deno.realPath(args.words[0]).catch(() => args.words[0]);
    if (!await forget(home(), dir)) {
      throw new SbxError("project.not_found", `nothing is approved for ${dir}`, {
        hint: "sbx project list shows the approvals",
      });
    }
    await print(`forgot the approval for ${dir}`);
    return 0;
  },
};

const LIST: Command = {
  name: "project list",
  usage: "[--json]",
  summary: "list the approvals of project files",
  options: [JSON_OPTION],
  examples: ["sbx project list"],
  async run(args) {
    const approvals = await approvalsIn(home());
    if (args.has("json")) await printJson({ approvals });
    else {
      const rows = approvals.map(({ dir, at, sha256, approved }) => [
        dir,
        at,
        sha256.slice(0, 12),
        approved.join(", "),
      ]);
      await print(table(["FOLDER", "APPROVED", "SHA256", "WHAT"], rows));
    }
    return 0;
  },
};

export const command: CommandGroup = {
  name: "project",
  summary: "show and approve the .sbx.toml of a folder",
  notes: ["docs/guides/project-file.md explains it."],
  subcommands: [SHOW, APPROVE, FORGET, LIST],
};

/** @throws {SbxError} `project.not_found`, `project.invalid` */
async function projectOf(dir: string): Promise<Project> {
  const project = await readProject(dir);
  if (project) return project;
  throw new SbxError("project.not_found", `${dir} has no .sbx.toml`, {
    hint: "docs/guides/project-file.md says what it may contain",
  });
}

async function viewOf(project: Project) {
  const approval = await approvalOf(home(), project);
  const { text: _, ...rest } = project;
  const is_approved = isApproved(project, approval);
  return {
    ...rest,
    is_approved,
    changes: is_approved ? [] : changesOf(project, approval),
  };
}
