/**
 * Project files of the folders that a new VM works on, read here too: decisions of corp and of a
 * person hold for every client, not only for the commands of sbx
 * (docs/design/contracts/04-profiles.md §4, "Project files").
 */
import type { CreateRequest } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { type CorpStore, projectMissing, requiresProject, requireWidening } from "../../config/corp/mod.ts";
import { approvalOf, isApproved, readProject, widenings } from "../../config/project/mod.ts";
import { joinNarrowing } from "../../policy/mod.ts";

/** The part of a request that says which folders come in. */
type Folders = Pick<CreateRequest, "project" | "folders" | "live">;

/**
 * The rules that hold in a new VM: the request's, and all of the files as they are now.
 *
 * @returns undefined: no rules
 * @throws {SbxError} `project.required`, `project.forbidden`, `project.unapproved`, `project.invalid`
 */
export async function projectRules(
  home: Pick<Home, "dir">,
  corp: Pick<CorpStore, "state">,
  { project, folders = [], live }: Folders,
): Promise<CreateRequest["project"]> {
  // Its own errors come later: it may be no folder that can be shared.
  const shared = live && await Deno.realPath(live.dir).catch(() => live.dir);
  const isNamed = shared === undefined || folders.some(({ dir }) => dir === shared);
  const all = isNamed ? folders : [...folders, { dir: shared, with_requests: false }];
  const files = project ? [project] : [];
  for (const { dir, with_requests } of all) {
    const file = await readProject(dir);
    const asks = file !== undefined && widenings(file).length > 0;
    if (requiresProject(corp.state) && (!file || (asks && !with_requests))) throw projectMissing(dir);
    if (!file) continue;
    files.push(file.rules);
    if (!asks || !with_requests) continue;
    requireWidening(corp.state, file.dir);
    if (isApproved(file, await approvalOf(home, file))) continue;
    throw new SbxError(
      "project.unapproved",
      `.sbx.toml of ${file.dir} asks for more than was approved for it`,
      {
        hint: `sbx project approve ${file.dir} shows it`,
      },
    );
  }
  return files.length > 0 ? joinNarrowing(...files) : undefined;
}
