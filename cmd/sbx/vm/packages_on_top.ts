/**
 * The image of a profile that adds apt or npm packages to an OCI image: a generated Dockerfile, built in a VM
 * as a person's Dockerfile is.
 */
import { join } from "node:path";
import type { Arch } from "../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import { quoteWord } from "../../../lib/base/text/mod.ts";
import { imageReference, type Profile } from "../../../lib/config/profile/mod.ts";
import type { MadeEnvironment } from "../../../lib/publish/environment/mod.ts";
import { buildContext } from "./build_image.ts";
import { pullImage } from "./pull_image.ts";

const BASE_HINT = "name an image of a registry in [image] from, or leave out its apt and npm packages";

/** A user that can stand in a Dockerfile as it is; another text could add lines and variables to it. */
const USER = /^[\w.@+-]+(:[\w.@+-]+)?$/;

/**
 * Builds the profile's image, unless this home has it.
 *
 * @param refresh builds again, on the registry's current base image
 * @throws {SbxError} `build.*`, `environment.*`, `corp.image`, `disk.full`
 */
export async function buildWithPackages(
  profile: Profile,
  arch: Arch,
  refresh = false,
): Promise<MadeEnvironment> {
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
      `${from.canonical} is on this machine only, where the VM that builds the image cannot pull it`,
      { hint: BASE_HINT },
    );
  }
  // The packages are installed as root; then the base image's user is set again.
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
        "the build's log is above: apt packages need an image of Debian or Ubuntu, npm packages one with npm",
    },
  );
}

/**
 * The Dockerfile that installs packages on a base image. The profile's schema limits their names; quoting
 * keeps each one word of the shell.
 *
 * @param base reference with its digest
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
      throw new SbxError("build.base_invalid", `the user of ${base} is neither a name nor a number`, {
        hint: BASE_HINT,
      });
    }
    lines.push(`USER ${user}`);
  }
  return `${lines.join("\n")}\n`;
}
