/**
 * The image of a new VM from the folder that it gets: its Dockerfile or devcontainer.json, after a question.
 */
import { join, relative, resolve } from "node:path";
import { currentArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Command, Option } from "../../../lib/base/args/mod.ts";
import { ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { note, plain } from "../../../lib/base/print/mod.ts";
import type { Features } from "../../../lib/publish/build/mod.ts";
import type { Devcontainer, DevcontainerPlan } from "../../../lib/publish/devcontainer/mod.ts";
import type { EnvironmentConfig } from "../../../lib/release/environment/mod.ts";
import { isYes } from "../confirm.ts";
import { remoteHost, requireThisMachine } from "../host.ts";
import { usageError } from "../output.ts";
import { BUILD_OPTIONS, buildFolderImage, type BuiltImage } from "./build_image.ts";
import { pullImage } from "./pull_image.ts";
import { archOf } from "./new_vm.ts";

/** Switches of commands that bring a folder in. */
export const FOLDER_IMAGE_OPTIONS: Option[] = [
  {
    name: "dockerfile",
    about: "build the folder's Dockerfile in a VM, and boot the image (docs/guides/dockerfile.md)",
  },
  {
    name: "devcontainer",
    about: "the same by the folder's devcontainer.json, with its features, user, commands and ports",
  },
];

/** Options that name the root file system, so that there is no question. */
const NAMED = ["image", "profile", "from", "live"];

/** The image of a folder. */
export interface FolderImage {
  /** its reference */
  image: string;
  /** the VM of a `devcontainer.json` */
  plan?: DevcontainerPlan;
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
  return typeof built === "number" ? built : { image: built.pinned };
}

async function imageOfDevcontainer(
  command: Command,
  args: Arguments,
  dir: string,
): Promise<FolderImage | number> {
  const { findDevcontainer, planDevcontainer, readDevcontainer } = await import(
    "../../../lib/publish/devcontainer/mod.ts"
  );
  const path = await findDevcontainer(dir);
  if (path === undefined) {
    throw new SbxError("devcontainer.missing", `${dir} has no devcontainer.json`, {
      hint: "--dockerfile builds a Dockerfile, --image boots an image",
    });
  }
  const file = await readDevcontainer(dir, path);
  const made = await makeImage(command, args, dir, file);
  if (typeof made === "number") return made;
  const plan = planDevcontainer(file, { dir, image: made.config, to: args.text("to") });
  if (plan.leftOut.length > 0) {
    note(`sbx: devcontainer.json: without effect here: ${plan.leftOut.join(", ")}`);
  }
  return { image: made.image, plan };
}

/**
 * Pulls the image of a `devcontainer.json`, or builds it.
 * @returns its reference, or the exit code of a build that failed
 */
async function makeImage(
  command: Command,
  args: Arguments,
  dir: string,
  file: Devcontainer,
): Promise<{ image: string; config: EnvironmentConfig } | number> {
  const { image, build, path } = file;
  const features = file.features && await featuresOf(dir, file);
  if (build) {
    const { file, context, target, args: buildArgs } = build;
    const defaults = { file, target, args: buildArgs, features };
    return configured(await buildFolderImage(command, args, context, defaults));
  }
  // Only a registry's: a folder or an archive of this host is not the repository's to name.
  const { parseReference } = await import("../../../lib/release/environment/mod.ts");
  const reference = parseReference(image!);
  if (reference.kind !== "registry") {
    throw new SbxError(
      "devcontainer.invalid",
      `${path} names ${image}, which is not an image of a registry`,
      {
        hint: "boot it by name, if it is the right one: --image",
      },
    );
  }
  if (features) {
    return configured(
      await buildFolderImage(command, args, dir, { image: reference.canonical, features }),
    );
  }
  const { environment } = await pullImage(image!, archOf(args) ?? currentArch());
  return { image: reference.canonical, config: environment.config };
}

function configured(built: BuiltImage | number): { image: string; config: EnvironmentConfig } | number {
  return typeof built === "number" ? built : { image: built.pinned, config: built.environment.config };
}

/** The features of a `devcontainer.json`, with the files that they need. */
async function featuresOf(dir: string, { features, properties, path }: Devcontainer): Promise<Features> {
  const { readFiles } = await import("../../../lib/publish/build/mod.ts");
  const { containerUser, remoteUser } = properties;
  const found = await readFiles(join(resolve(dir), ".devcontainer"));
  const hasOwn = Object.keys(features!.features).some((name) => name.startsWith("."));
  const isUsed = (file: string) =>
    file === "devcontainer-lock.json" || hasOwn && file !== "devcontainer.json";
  for (const file of found.secretsLeftOut.filter(isUsed)) {
    note(`sbx: left out of the build: .devcontainer/${plain(file)}: looks like a secret`);
  }
  return {
    ...features!,
    containerUser,
    remoteUser,
    config: relative(resolve(dir), path),
    files: { dir: found.dir, files: found.files.filter((file) => isUsed(file.path)) },
  };
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
  return isYes(`The folder has a ${name}. Boot its image?`) ? kind : undefined;
}
