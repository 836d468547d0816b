/** Schema of `[packages]`. The names reach command lines of apt and npm, so none may look like an option. */
import { z } from "zod";

/** Debian package as apt installs it, with architecture or version if need be. A name that ends in `-` would remove it. */
const APT_PACKAGE = /^[a-z0-9][a-z0-9+.-]*[a-z0-9+.](:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$/;

/** Tests whether a text names a Debian package; the image build accepts the same names. */
export function isAptPackage(name: string): boolean {
  return name.length <= 256 && APT_PACKAGE.test(name);
}

const apt = z.string().refine(isAptPackage, "not the name of a Debian package");
const npm = z.string().max(256).regex(
  // {cpu} stands for x64 or arm64.
  /^(@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9]([a-z0-9._~-]|\{cpu\})*(@[A-Za-z0-9.^~<>=*+-]+)?$/,
  "not the name of an npm package",
);
const program = z.string().max(64).regex(/^[A-Za-z0-9][\w.-]*$/, "not the name of a program");
const modulePath = z.string().max(256).regex(
  /^(?!.*(^|\/)\.\.?(\/|$))[A-Za-z0-9@][\w@.{}/-]*$/,
  "not a path below node_modules",
);

/** Debian releases that guests can be made of. */
export const SUITES = ["bookworm", "trixie"] as const;
export type Suite = typeof SUITES[number];

/** Debian release of a guest whose profile names no release. */
export const DEFAULT_SUITE: Suite = "trixie";

export const Packages = z.strictObject({
  suite: z.enum(SUITES).default(DEFAULT_SUITE),
  apt: z.array(apt).default([]),
  npm: z.array(npm).default([]),
  bin: z.record(program, modulePath).default({}),
});
/** Content of a guest image: Debian's release, its packages, and npm's. */
export type Packages = z.output<typeof Packages>;
