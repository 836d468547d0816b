/** Errors of pulls: refusals of registries, tools and disks, with their remedies. */
import { SbxError } from "../../base/error/mod.ts";
import { formatBytes } from "../../base/progress/mod.ts";
import type { Reference } from "../../release/environment/mod.ts";

/** Most platforms of an image that an error names. */
export const PLATFORMS_SHOWN = 20;

/** A platform in an error, on one line. */
export function platformName(os: string, architecture: string): string {
  return `${os}/${architecture}`.replaceAll(/[^\w./-]/g, "?").slice(0, 40);
}

/** More arrived than a manifest says. */
export function tooLong({ canonical }: Reference, max: number): SbxError {
  return new SbxError(
    "environment.layer.too_large",
    `${canonical} was refused: its download has more than ${
      formatBytes(max)
    }, which is more than its manifest says`,
    { hint: "the registry, or something on the way to it, is not to be trusted" },
  );
}

const ROOM_HINT = "free some space: sbx image gc removes images and layers that no VM uses";

/** @param needed `bytes`, of which some stay free */
export function noRoom(dir: string, free: number, needed: number): SbxError {
  return new SbxError(
    "disk.full",
    `${dir} has ${formatBytes(free)} free, and the download needs ${formatBytes(needed)}`,
    { hint: ROOM_HINT },
  );
}

/** The error of skopeo's own words. */
export function pullError(
  { canonical, registry }: Pick<Reference, "canonical" | "registry">,
  doing: string,
  output: string,
): SbxError {
  const line = output.trim().split("\n").at(-1) ?? "";
  const quoted = /msg="((?:[^"\\]|\\.)*)"/.exec(line)?.[1].replace(/\\(.)/g, "$1") ?? line;
  const said = quoted.replace(/^Error parsing image name "[^"]*": /, "").replaceAll(/\s+/g, " ")
    .slice(0, 400);
  if (/no space left on device|disk quota exceeded/i.test(said)) {
    return new SbxError("disk.full", `${doing}: no space left on the disk`, {
      cause: output,
      hint: ROOM_HINT,
    });
  }
  if (/unauthorized|authentication required|denied/i.test(said)) {
    return new SbxError(
      "environment.unauthorized",
      `${registry ?? canonical} refused ${canonical}: ${said}`,
      {
        cause: output,
        hint: `docker login ${
          registry ?? ""
        } stores a login that sbx uses; a missing image is refused like a private one`,
      },
    );
  }
  if (/manifest unknown|name unknown|not found|no such file|no image found/i.test(said)) {
    return new SbxError("environment.not_found", `there is no image ${canonical}: ${said}`, {
      cause: output,
      hint: "check its name and tag",
    });
  }
  return new SbxError("environment.pull_failed", `${doing} failed: ${said}`, {
    cause: output,
    hint: /Cannot connect to the Docker daemon/i.test(said)
      ? "start Docker, or name an image of a registry, of a folder or of an archive"
      : "check that the registry can be reached from this machine, and try again: finished layers are kept",
  });
}

/** @throws {SbxError} `environment.manifest.invalid` */
export function invalid({ canonical }: Reference, reason: string, cause?: unknown): never {
  throw new SbxError("environment.manifest.invalid", `${canonical} was refused: ${reason}`, {
    cause,
    hint: "take an image from a publisher that you trust, or make it again with a current tool",
  });
}
