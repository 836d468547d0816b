/** Corp's switch for project files (docs/design/contracts/03-settings.md §3, "Corp limits"). */
import { SbxError } from "../../base/error/mod.ts";

/** Part of corp's state that the switch is in. */
interface ProjectState {
  status: string;
  config?: { file: { corp: { limits?: { project_files?: "narrow" | "require" } } } };
}

/** True where project files may only take away; also where corp cannot be read. */
export function mayOnlyNarrow(state: ProjectState): boolean {
  if (state.status === "absent") return false;
  return state.config === undefined || state.config.file.corp.limits?.project_files === "narrow";
}

/** True where a new VM for a folder needs the folder's project file. */
export function requiresProject(state: ProjectState): boolean {
  return state.config?.file.corp.limits?.project_files === "require";
}

/** @throws {SbxError} `project.forbidden`: corp lets project files only take away */
export function requireWidening(state: ProjectState, dir: string): void {
  if (!mayOnlyNarrow(state)) return;
  throw new SbxError("project.forbidden", `corp lets .sbx.toml of ${dir} only take away`, {
    hint: "--no-project ignores its requests; sbx corp info shows corp's limits",
  });
}

/** The error of a new VM for a folder whose project file corp requires. */
export function projectMissing(dir: string): SbxError {
  return new SbxError("project.required", `corp requires the .sbx.toml of ${dir}, and it is not used`, {
    hint: "write one, and leave out --no-project: docs/guides/project-file.md",
  });
}
