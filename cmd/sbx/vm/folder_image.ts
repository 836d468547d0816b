/** The image of a new VM from the folder that it gets: its Dockerfile or devcontainer.json, after a question. */
import { join } from "node:path";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { note } from "../../../lib/base/print/mod.ts";
import { remoteHost, requireThisMachine } from "../host.ts";
import { usageError } from "../output.ts";
import { BUILD_OPTIONS, buildFolderImage } from "./build_image.ts";
import { pullImage } from "./image_option.ts";
import { archOf } from "./new_vm.ts";

/** Switches of commands that bring a folder in. */
export const FOLDER_IMAGE_OPTIONS: Option[] = [
  {
    name: "dockerfile",
    about: "build the folder's Dockerfile in a VM, and boot the image (docs/guides/dockerfile.md)",
  },
  { name: "devcontainer", about: "the same by the folder's devcontainer.json: its image, or its build" },
];

/** Options that name the root file system, so that there is no question. */
const NAMED = ["image", "profile", "from", "live"];

/** The image of a folder. */
export interface FolderImage {
  /** its reference */
  image: string;
  /** variables of the VM */
  env: Record<string, string>;
}

type Kind = "dockerfile" | "devcontainer";

/**
 * The image of the folder's Dockerfile or devcontainer.json, if the person wants it.
 *
 * @param dir the folder that the VM gets
 * @returns undefined: another image; a number: the exit code of a build that failed
 */
export async function imageOfFolder(
  command: Command,
  args: Arguments,
  dir: string | undefined,
): Promise<FolderImage | number | undefined> {
  const kinds: Kind[] = ["dockerfile", "devcontainer"];
  const [asked, other] = kinds.filter((kind) => args.has(kind));
  const option = BUILD_OPTIONS.find(({ name }) => args.has(name))?.name;
  if (other) throw usageError(command, "--dockerfile and --devcontainer exclude each other");
  if (option && !asked) throw usageError(command, `--${option} needs --dockerfile`);
  if (asked && dir === undefined) throw usageError(command, `--${asked} needs --from-dir`);
  if (asked && args.has("image")) throw usageError(command, `--${asked} and --image exclude each other`);
  if (dir === undefined) return undefined;
  if (asked) requireThisMachine(`--${asked}`);
  const kind = asked ?? await wantedKind(args, dir);
  if (kind === "devcontainer") return await imageOfDevcontainer(command, args, dir);
  if (kind === undefined) return undefined;
  const built = await buildFolderImage(command, args, dir);
  return typeof built === "number" ? built : { image: built.pinned, env: {} };
}

async function imageOfDevcontainer(
  command: Command,
  args: Arguments,
  dir: string,
): Promise<FolderImage | number> {
  const { findDevcontainer, readDevcontainer } = await import("../../../lib/publish/build/mod.ts");
  const path = await findDevcontainer(dir);
  if (path === undefined) {
    throw new SbxError("devcontainer.missing", `${dir} has no devcontainer.json`, {
      hint: "--dockerfile builds a Dockerfile, --image boots an image",
    });
  }
  const { image, build, env, leftOut } = await readDevcontainer(dir, path);
  if (leftOut.length > 0) note(`sbx: devcontainer.json: without effect here: ${leftOut.join(", ")}`);
  if (image !== undefined) {
    // Only a registry's: a folder or an archive of this host is not the repository's to name.
    const { parseReference } = await import("../../../lib/release/environment/mod.ts");
    const reference = parseReference(image);
    if (reference.kind !== "registry") {
      throw new SbxError("devcontainer.invalid", `${path} names ${image}, which is no image of a registry`, {
        hint: "boot it by name, if it is the right one: --image",
      });
    }
    await pullImage(image, archOf(args) ?? currentArch());
    return { image: reference.canonical, env };
  }
  const { file, context, target, args: buildArgs } = build!;
  const built = await buildFolderImage(command, args, context, { file, target, args: buildArgs });
  return typeof built === "number" ? built : { image: built.pinned, env };
}

/** Asks once on a terminal; elsewhere a line says how. */
async function wantedKind(args: Arguments, dir: string): Promise<Kind | undefined> {
  if (NAMED.some((name) => args.has(name)) || remoteHost() !== undefined) return undefined;
  const isFile = async (path: string) => (await ifFound(Deno.stat(join(dir, path))))?.isFile === true;
  const kind: Kind | undefined = await isFile(".devcontainer/devcontainer.json")
    ? "devcontainer"
    : await isFile("Dockerfile")
    ? "dockerfile"
    : undefined;
  if (kind === undefined) return undefined;
  const name = kind === "devcontainer" ? "devcontainer.json" : "Dockerfile";
  if (!Deno.stdin.isTerminal()) {
    note(`sbx: the folder has a ${name}: --${kind} boots its image`);
    return undefined;
  }
  const answer = prompt(`The folder has a ${name}. Boot its image? [y/N]`);
  return ["y", "yes"].includes((answer ?? "").trim().toLowerCase()) ? kind : undefined;
}
