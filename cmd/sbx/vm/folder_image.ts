/** The image of a new VM from the folder that it gets: its Dockerfile, after a question. */
import { join } from "node:path";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { ifFound } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { remoteHost, requireThisMachine } from "../host.ts";
import { usageError } from "../output.ts";
import { BUILD_OPTIONS, buildFolderImage } from "./build_image.ts";

/** Switch of commands that bring a folder in. */
export const DOCKERFILE_OPTION: Option = {
  name: "dockerfile",
  about: "build the folder's Dockerfile in a VM, and boot the image (docs/guides/dockerfile.md)",
};

/** Options that name the root file system, so that there is no question. */
const NAMED = ["image", "profile", "from", "live"];

/**
 * The image of the folder's Dockerfile, if the person wants it.
 *
 * @param dir the folder that the VM gets
 * @returns its reference by digest; undefined: another image; a number: the exit code of a build that failed
 */
export async function imageOfFolder(
  command: Command,
  args: Arguments,
  dir: string | undefined,
): Promise<string | number | undefined> {
  const option = BUILD_OPTIONS.find(({ name }) => args.has(name))?.name;
  const isAsked = args.has("dockerfile");
  if (option && !isAsked) throw usageError(command, `--${option} needs --dockerfile`);
  if (isAsked && dir === undefined) throw usageError(command, "--dockerfile needs --from-dir");
  if (isAsked && args.has("image")) throw usageError(command, "--dockerfile and --image exclude each other");
  if (dir === undefined) return undefined;
  if (isAsked) requireThisMachine("--dockerfile");
  if (!isAsked && !await wantsDockerfile(args, dir)) return undefined;
  const built = await buildFolderImage(command, args, dir);
  return typeof built === "number" ? built : built.pinned;
}

/** Asks once on a terminal; elsewhere a line says how. */
async function wantsDockerfile(args: Arguments, dir: string): Promise<boolean> {
  if (NAMED.some((name) => args.has(name)) || remoteHost() !== undefined) return false;
  if (!(await ifFound(Deno.stat(join(dir, "Dockerfile"))))?.isFile) return false;
  if (!Deno.stdin.isTerminal()) {
    note("sbx: the folder has a Dockerfile: --dockerfile builds it and boots its image");
    return false;
  }
  const answer = prompt("The folder has a Dockerfile. Build it in a VM, and boot its image? [y/N]");
  return ["y", "yes"].includes((answer ?? "").trim().toLowerCase());
}
