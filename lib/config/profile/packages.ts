/**
 * `[packages]` of profile.toml (docs/design/contracts/04-profiles.md §4, "Packages of a profile"). Names of
 * packages reach command lines of apt, npm, cargo and go, so none may look like an option.
 */
import { z } from "zod";

/** Most entries of one list of a company's own packages and files. */
const ENTRIES_MAX = 64;

export const npm = z.string().max(256).regex(
  // {cpu} stands for x64 or arm64.
  /^(@[a-z0-9][a-z0-9._~-]*\/)?[a-z0-9]([a-z0-9._~-]|\{cpu\})*(@[A-Za-z0-9.^~<>=*+-]+)?$/,
  "not the name of an npm package",
);

/**
 * Debian package as apt installs it, with architecture or version if need be. A name
 * that ends in `-` would remove it.
 */
const APT_PACKAGE = /^[a-z0-9][a-z0-9+.-]*[a-z0-9+.](:[a-z0-9]+)?(=[A-Za-z0-9.+:~-]+)?$/;

/** Tests whether a text names a Debian package; the image build accepts the same names. */
export function isAptPackage(name: string): boolean {
  return name.length <= 256 && APT_PACKAGE.test(name);
}

const apt = z.string().refine(isAptPackage, "not the name of a Debian package");
const program = z.string().max(64).regex(/^[A-Za-z0-9][\w.-]*$/, "not the name of a program");
const modulePath = z.string().max(256).regex(
  /^(?!.*(^|\/)\.\.?(\/|$))[A-Za-z0-9@][\w@.{}/-]*$/,
  "not a path below node_modules",
);

/** Debian releases that guests can be made of. */
export const SUITES = ["bookworm", "trixie"] as const;
export type Suite = typeof SUITES[number];

/** Debian release of a guest whose profile names no release. */
const DEFAULT_SUITE: Suite = "trixie";

/** File of the profile's folder, pinned: its profile.toml alone decides on an image. */
const PinnedFile = z.strictObject({
  file: z.string().max(512).regex(
    /^(?!.*(^|\/)\.\.?(\/|$))[\w@+~][\w@+~.-]*(\/[\w@+~.-]+)*$/,
    "must be a path below the profile's folder, of letters, digits and @ + ~ . - _",
  ),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal characters, as sha256sum prints them"),
});
export type PinnedFile = z.output<typeof PinnedFile>;

/** An address that images and records may show: without a password, and without blanks. */
const address = (schemes: RegExp) =>
  z.string().max(1024).refine((text) => {
    const url = /^[\x21-\x7e]+$/.test(text) && !/["'\\\[\]|]/.test(text) && URL.parse(text);
    return url && schemes.test(url.protocol) && !url.username && !url.password && !url.search && !url.hash;
  }, "must be an address of http or https, without user, password, query and #");
const HTTP = /^https?:$/;

/** A Debian repository of a company, and the key that signs it. */
const AptSource = z.strictObject({
  uri: address(HTTP),
  suite: z.string().max(128).regex(/^(?!.*\.\.)[A-Za-z0-9][\w.+~/-]*$/, "not the name of a suite"),
  components: z.array(z.string().max(64).regex(/^[A-Za-z0-9][\w.+~/-]*$/, "not the name of a component"))
    .max(16).default([]),
  signed_by: PinnedFile,
}).refine(({ suite, components }) => suite.endsWith("/") === (components.length === 0), {
  path: ["components"],
  message: 'must have at least one, such as "main", and none where suite ends in /',
});

/** Folders that a VM mounts over, or that are links in Debian. */
const NOT_PLACED = /^\/(proc|sys|dev|run|tmp|bin|sbin|lib|lib32|lib64|libx32|boot|workspace)(\/|$)/;

/** Folders of Debian in which sbx has files too. */
const FOLDER =
  /^\/(etc|home|media|mnt|opt|root|srv|usr|var|usr\/(bin|sbin|lib|lib64|local|share)|usr\/local\/(bin|share|share\/ca-certificates))$/;

/** A file of a company in the image. */
const PlacedFile = PinnedFile.extend({
  to: z.string().max(256).regex(
    /^(?!.*\/\.\.?(\/|$))(\/[\w@+.-]+)+$/,
    "must be an absolute path of letters, digits and @ + . - _",
  ).refine((path) => !NOT_PLACED.test(path), "is not kept there: write /usr/bin for /bin, and /etc or /opt")
    .refine((path) => !FOLDER.test(path), "is a folder of Debian: name the file in it"),
  mode: z.string().regex(/^0[0-7]{3}$/, 'must be a mode such as "0644"').default("0644"),
});

const exact = (name: RegExp, what: string) => z.string().max(256).regex(name, what);

const Cargo = z.strictObject({
  install: z.array(exact(
    /^[A-Za-z][A-Za-z0-9_-]{0,63}@\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/,
    "not a crate with its exact version, such as ripgrep@14.1.0",
  )).min(1).max(ENTRIES_MAX),
  /** sparse index that takes the place of crates.io */
  registry: z.string().startsWith("sparse+", "must begin with sparse+").transform((text) => text.slice(7))
    .pipe(address(HTTP)).transform((text) => `sparse+${text}`).optional(),
});

const Go = z.strictObject({
  install: z.array(exact(
    /^[a-z0-9][a-z0-9.-]*\.[a-z]+(\/[A-Za-z0-9_~-][\w.~-]*)*@v\d+\.\d+\.\d+([-+][0-9A-Za-z.+-]+)?$/,
    "not a package of Go with its exact version, such as golang.org/x/tools/gopls@v0.18.1",
  )).min(1).max(ENTRIES_MAX),
  /** go.sum with a hash of each module: no other is taken. Without it, Go's checksum database decides */
  lock: PinnedFile.optional(),
  /** module proxy that takes the place of proxy.golang.org */
  proxy: address(HTTP).optional(),
});

const Pip = z.strictObject({
  /** requirements.txt with exact versions and hashes */
  lock: PinnedFile,
  /** index that takes the place of this machine's */
  index: address(HTTP).optional(),
});

export const Packages = z.strictObject({
  suite: z.enum(SUITES).default(DEFAULT_SUITE),
  apt: z.array(apt).default([]),
  npm: z.array(npm).default([]),
  bin: z.record(program, modulePath).default({}),
  apt_source: z.array(AptSource).max(16).optional(),
  deb: z.array(PinnedFile).max(ENTRIES_MAX).optional(),
  pip: Pip.optional(),
  cargo: Cargo.optional(),
  go: Go.optional(),
  certificates: z.array(PinnedFile).max(ENTRIES_MAX).optional(),
  files: z.array(PlacedFile).max(ENTRIES_MAX).optional(),
  /** runs at the end of a build, as root of the image alone, without a network */
  script: PinnedFile.optional(),
});
/** Content of a guest image: Debian's release, its packages, others', and a company's own. */
export type Packages = z.output<typeof Packages>;

/** Debian packages of Docker: engine, client, BuildKit, compose, and iptables for its networks. */
const DOCKER: Record<Suite, readonly string[]> = {
  bookworm: ["docker.io", "docker-compose", "iptables"],
  trixie: ["docker.io", "docker-buildx", "docker-cli", "docker-compose", "iptables"],
};

/**
 * Debian packages of podman: engine, runtime, and the network with its names,
 * by the rules of iptables or nft.
 */
const PODMAN = ["podman", "crun", "netavark", "aardvark-dns", "iptables", "nftables"];

/** `[packages]` of a profile. */
export const ProfilePackages = Packages.extend({
  docker: z.boolean().default(false),
  podman: z.boolean().default(false),
}).superRefine(({ suite, cargo, files = [], certificates = [] }, context) => {
  if (cargo && suite === "bookworm") {
    context.addIssue({
      code: "custom",
      path: ["cargo"],
      message: "needs trixie: bookworm's cargo reads no sparse index",
    });
  }
  const places = files.map(({ to }) => to);
  unique(context, "files", places);
  const inFile = places.find((place) => places.some((other) => place.startsWith(`${other}/`)));
  if (inFile !== undefined) {
    const file = places.find((other) => inFile.startsWith(`${other}/`))!;
    const message = `has ${inFile} below ${file}, which is a file: give one of them another place`;
    context.addIssue({ code: "custom", path: ["files"], message });
  }
  unique(context, "certificates", certificates.map(({ file }) => file));
});

function unique(context: z.RefinementCtx, key: string, values: string[]): void {
  const twice = values.find((value, at) => values.indexOf(value) !== at);
  if (twice === undefined) return;
  context.addIssue({ code: "custom", path: [key], message: `has ${twice} twice` });
}

/** The packages that a profile names, with the ones of its engines, and Python for pip's, among them. */
export function withEngines(
  { docker, podman, ...packages }: z.output<typeof ProfilePackages>,
): Packages {
  const { suite, pip } = packages;
  const more = [...docker ? DOCKER[suite] : [], ...podman ? PODMAN : [], ...pip ? ["python3"] : []];
  return { ...packages, apt: [...new Set([...packages.apt, ...more])] };
}

/**
 * Additions of a profile to Debian's and npm's packages, a line each with its source and its bytes' hash.
 */
export function addedLines(packages: Packages): string[] {
  const { apt_source = [], deb = [], pip, cargo, go, certificates = [], files = [], script } = packages;
  const pinned = (kind: string, { file, sha256 }: PinnedFile, more = "") =>
    `${kind}:${file}${more}@sha256:${sha256}`;
  return [
    ...apt_source.map(({ uri, suite, components, signed_by }) =>
      pinned(`apt_source:${[uri, suite, ...components].join(",")}:`, signed_by)
    ),
    ...deb.map((each) => pinned("deb", each)),
    ...pip ? [pinned("pip", pip.lock), ...pip.index ? [`pip_index:${pip.index}`] : []] : [],
    ...(cargo?.install ?? []).map((name) => `cargo:${name}`),
    ...cargo?.registry ? [`cargo_registry:${cargo.registry}`] : [],
    ...(go?.install ?? []).map((name) => `go:${name}`),
    ...go?.lock ? [pinned("go_lock", go.lock)] : [],
    ...go?.proxy ? [`go_proxy:${go.proxy}`] : [],
    ...certificates.map((each) => pinned("certificate", each)),
    ...files.map((each) => pinned("file", each, `:${each.to}:${each.mode}`)),
    ...script ? [pinned("script", script)] : [],
  ];
}

/** The packages as an image's manifest has them, which is compared with the profile's. */
export function recordedPackages(
  packages: Packages,
): Pick<Packages, "suite" | "apt" | "npm" | "bin"> & { added?: string[] } {
  const { suite, apt, npm, bin } = packages;
  const added = addedLines(packages);
  return { suite, apt, npm, bin, ...added.length > 0 && { added } };
}
