import { type Arguments, type CommandGroup, JSON_OPTION } from "../../../lib/base/args/mod.ts";
import { asSbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { print, printJson } from "../../../lib/base/print/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import {
  bootAssets,
  currentArch,
  type ListedProfile,
  listProfiles,
  loadProfile,
} from "../../../lib/profile/mod.ts";
import { buildProfileImage } from "../image.ts";
import { table } from "../output.ts";

export const command: CommandGroup = {
  name: "image",
  summary: "list and build the images that VMs boot",
  subcommands: [
    {
      name: "image list",
      usage: "[--json]",
      summary: "list each profile's image",
      notes: ["Profiles with the same packages share an image."],
      options: [JSON_OPTION],
      examples: ["sbx image list"],
      run: list,
    },
    {
      name: "image build",
      usage: "PROFILE [--json]",
      summary: "build the image of a profile from its packages, and install it",
      notes: [
        "It takes about a minute and 2.5 GB of disk space meanwhile. VMs that run keep the image that they booted.",
      ],
      options: [JSON_OPTION],
      words: { min: 1, max: 1 },
      examples: ["sbx image build co-work"],
      run: build,
    },
  ],
};

/** The image of one profile. */
interface ListedImage {
  profile_id: string;
  /** profile whose image it is, and its version */
  image?: string;
  version?: string;
  suite?: string;
  bytes?: number;
  /** why there is none */
  problem?: string;
}

async function list(args: Arguments): Promise<number> {
  const images = await Promise.all((await listProfiles(home())).map(imageOf));
  if (args.has("json")) await printJson({ images });
  else await print(table(["PROFILE", "IMAGE", "VERSION", "SUITE", "SIZE"], images.map(rowOf)));
  return 0;
}

async function imageOf(listed: ListedProfile): Promise<ListedImage> {
  const profile_id = listed.id;
  if ("error" in listed) return { profile_id, problem: listed.error.message };
  try {
    const { image, version, rootfs } = await bootAssets(home(), listed.profile, currentArch());
    return {
      profile_id,
      image: image?.profile ?? (listed.profile.assets ? "pinned" : "any"),
      version,
      suite: image?.packages.suite,
      bytes: rootfs.size,
    };
  } catch (cause) {
    const { message, hint } = asSbxError(cause, "looking for an image");
    return { profile_id, problem: [message, hint].filter(Boolean).join("; ") };
  }
}

function rowOf({ profile_id, image, version, suite, bytes, problem }: ListedImage): string[] {
  if (problem) return [profile_id, problem, "", "", ""];
  return [profile_id, image ?? "", version ?? "", suite ?? "", formatBytes(bytes ?? 0)];
}

async function build(args: Arguments): Promise<number> {
  const profile = await loadProfile(home(), args.words[0]);
  const built = await buildProfileImage(profile);
  if (args.has("json")) await printJson(built);
  else {await print(
      `image ${built.version} of ${built.profile} is installed: sbx create NAME --profile ${built.profile}`,
    );}
  return 0;
}
