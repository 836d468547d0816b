/** `--image`: an OCI image as the root file system of a new VM, pulled if this home does not have it. */
import { currentArch } from "../../../lib/base/arch/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { ifFound, SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import type { MadeEnvironment } from "../../../lib/publish/environment/mod.ts";
import type { Arch } from "../../../lib/base/arch/mod.ts";
import type { Profile } from "../../../lib/config/profile/mod.ts";
import { remoteHost } from "../host.ts";
import { archOf } from "./new_vm.ts";
import { pullImage } from "./pull_image.ts";

export const IMAGE_OPTION: Option = {
  name: "image",
  value: "IMAGE",
  about: "OCI image, such as golang:1.25, name@sha256:…, oci:DIR, docker-archive:FILE, docker-daemon:NAME",
};

/** Profile of a VM that names none. */
const DEFAULT_PROFILE = "code";

/** The image of a new VM. */
interface NamedImage {
  /** of the command line, in one spelling for the service, whose folder is another one */
  image?: string;
  /** absent: none is named, or the VM is another machine's, which needs to have it */
  made?: MadeEnvironment;
}

/**
 * Pulls the image that a command line or the profile names, or builds the profile's, unless this home has it.
 *
 * @param ofVm architecture of the VM that gets it; absent: the command line's
 * @param profile of the VM, if the command line names none
 * @throws {SbxError} `environment.*`, `corp.image`, `disk.full`
 */
export async function pullNamedImage(
  args: Arguments,
  ofVm?: Arch,
  profile: string = DEFAULT_PROFILE,
): Promise<NamedImage> {
  const image = args.text("image");
  if (remoteHost() !== undefined) return image === undefined ? {} : { image };
  const arch = ofVm ?? archOf(args) ?? currentArch();
  if (image !== undefined) {
    const { parseReference } = await import("../../../lib/release/environment/mod.ts");
    return { image: parseReference(image).canonical, made: await pullImage(image, arch) };
  }
  const ofProfile = await profileWithImage(args.text("profile") ?? profile);
  return ofProfile === undefined ? {} : { made: await imageOfProfile(ofProfile, arch) };
}

/** A profile that names an image. Its file is parsed only if it seems to: loading the parser takes time. */
async function profileWithImage(id: string): Promise<Profile | undefined> {
  if (!/^[a-z0-9_-]{1,64}$/.test(id)) return undefined;
  const text = await ifFound(Deno.readTextFile(`${home().profilesDir}/${id}/profile.toml`));
  if (text === undefined || !/^\s*(\[\s*image\s*\]|image\s*[.=])/m.test(text)) return undefined;
  const { loadProfile } = await import("../../../lib/config/profile/mod.ts");
  const profile = await loadProfile(home(), id);
  return profile.image && profile;
}

/**
 * Pulls the OCI image of a profile, or builds the one with its packages on top.
 *
 * @param refresh asks the registry even if this home has it
 */
export async function imageOfProfile(
  profile: Profile,
  arch: Arch,
  refresh = false,
): Promise<MadeEnvironment> {
  const { hasPackagesOnTop } = await import("../../../lib/config/profile/mod.ts");
  if (!hasPackagesOnTop(profile)) return await pullImage(profile.image!.from, arch, refresh);
  return await (await import("./packages_on_top.ts")).buildWithPackages(profile, arch, refresh);
}

/** The program of an image: its entrypoint and command. @throws {SbxError} `usage.invalid` */
export function programOfImage({ environment: { config, reference } }: MadeEnvironment): string[] {
  const program = [...config.entrypoint ?? [], ...config.cmd ?? []];
  if (program.length > 0) return program;
  throw new SbxError("usage.invalid", `the image ${reference} names no program`, {
    hint: "name one: sbx run --image IMAGE -- CMD…",
  });
}
