/** The image of a profile with packages on top of an OCI image: built in a VM, as a Dockerfile is. */
import { join } from "node:path";
import type { Arch } from "../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { quoteWord } from "../../../lib/base/text/mod.ts";
import { imageReference, type Profile } from "../../../lib/config/profile/mod.ts";
import type { MadeEnvironment } from "../../../lib/publish/environment/mod.ts";
import { buildContext } from "./build_image.ts";
import { pullImage } from "./pull_image.ts";

/**
 * Builds the image of a profile, unless this home has it.
 *
 * @param refresh builds it on the image that the registry has now
 * @throws {SbxError} `build.*`, `environment.*`, `corp.image`, `disk.full`
 */
export async function buildOnTop(profile: Profile, arch: Arch, refresh = false): Promise<MadeEnvironment> {
  const [{ findEnvironment, isCurrentFormat, parseReference }, { requireCorpImage }, { useNetworkOf }] =
    await Promise.all([
      import("../../../lib/release/environment/mod.ts"),
      import("../../../lib/config/corp/mod.ts"),
      import("../../../lib/home/mod.ts"),
    ]);
  const place = home();
  const { state } = await useNetworkOf(place);
  const reference = parseReference(imageReference(profile)!);
  requireCorpImage(state, { reference: reference.canonical });
  const known = refresh ? undefined : await findEnvironment(place, reference.canonical, arch);
  if (known && isCurrentFormat(known)) return { environment: known, isNew: false };
  const from = parseReference(profile.image!.from);
  if (from.kind !== "registry" || from.registry === "localhost") {
    throw new SbxError(
      "build.base_invalid",
      `the VM that builds cannot get ${from.canonical} of this machine`,
      {
        hint: "name an image of a registry in [image] from, or leave out the packages on top",
      },
    );
  }
  // Its user goes on to be the image's.
  const { environment: base } = await pullImage(from.canonical, arch, refresh);
  const dockerfile = dockerfileOf(
    `${from.repository}@${base.digest}`,
    profile.image!,
    arch,
    base.config.user,
  );
  const built = await buildContext(
    {
      dir: join(place.profilesDir, profile.id),
      dockerfile,
      name: `the packages of the profile ${profile.id}`,
      files: [],
      secretsLeftOut: [],
    },
    { arch, args: {}, secrets: [], logins: [], reference, pull: refresh },
    state,
  );
  if (typeof built !== "number") return { environment: built.environment, isNew: built.isNew };
  throw new SbxError(
    "build.failed",
    `the image of profile "${profile.id}" was not built: exit code ${built}`,
    {
      hint:
        "its log is above: apt packages are for images of Debian and Ubuntu, npm packages for ones with npm",
    },
  );
}

/** A user that a Dockerfile names as it is: another text could have lines and variables of its own. */
const USER = /^[\w.@+-]+(:[\w.@+-]+)?$/;

/**
 * Names of packages are the schema's; quoted, so that no name is more than one word.
 *
 * @param user of the base image, which a stranger may have made
 * @throws {SbxError} `build.base_invalid`
 */
export function dockerfileOf(
  base: string,
  { apt, npm }: NonNullable<Profile["image"]>,
  arch: Arch,
  user?: string,
): string {
  const cpu = arch === "arm64" ? "arm64" : "x64";
  const words = (names: readonly string[]) => names.map(quoteWord).join(" ");
  const lines = [`FROM ${base}`, "USER 0:0"];
  if (apt.length > 0) {
    lines.push(
      `RUN export DEBIAN_FRONTEND=noninteractive && apt-get update && ` +
        `apt-get install -y --no-install-recommends ${words(apt)} && rm -rf /var/lib/apt/lists/*`,
    );
  }
  if (npm.length > 0) {
    const names = npm.map((name) => name.replaceAll("{cpu}", cpu));
    lines.push(`RUN npm install --global --no-audit --no-fund ${words(names)}`);
  }
  if (user) {
    if (!USER.test(user)) {
      throw new SbxError("build.base_invalid", `${base} has a user that is no name or number`, {
        hint: "name another image in [image] from, or leave out the packages on top",
      });
    }
    lines.push(`USER ${user}`);
  }
  return `${lines.join("\n")}\n`;
}
