/** Debian packages for a guest image, fetched by an apt of its own. */
import { basename, join } from "node:path";
import type { Arch } from "../../base/arch/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { hostEnvironment } from "../../base/proxy/mod.ts";
import type { Suite } from "../../config/profile/mod.ts";
import { archNames } from "./arch.ts";
import { run, runText } from "./command.ts";

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/**
 * Finds sources of the guest's suite: the mirrors of this machine's own apt, whose own suite may be another.
 *
 * @throws {SbxError} `image.mirror.not_found`: apt has no Debian archive
 */
export async function debianSources(arch: Arch, suite: Suite, signal?: AbortSignal): Promise<string[]> {
  const output = await runText(
    ["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
    { doing: "asking apt for its mirror", signal },
  );
  const targets = output.split("\n").map((line) => line.split("|"));
  const uriOf = (label: string) => targets.find(([name]) => name === label)?.[1];
  const archive = uriOf("Debian") ?? await firstSource(signal);
  if (!archive) {
    throw new SbxError("image.mirror.not_found", "this machine's apt has no Debian archive configured", {
      hint: "run apt-get update, or add a Debian mirror to /etc/apt/sources.list.d",
    });
  }
  const security = uriOf("Debian-Security");
  const source = (uri: string, name: string) =>
    `deb [arch=${archNames(arch).debian} signed-by=${KEYRING}] ${uri} ${name} main`;
  return [
    source(archive, suite),
    source(archive, `${suite}-updates`),
    ...(security ? [source(security, `${suite}-security`)] : []),
  ];
}

/** First source of a machine whose apt has no lists yet. The archive's keyring verifies its packages. */
async function firstSource(signal?: AbortSignal): Promise<string | undefined> {
  const output = await runText(["apt-get", "update", "--print-uris"], {
    doing: "asking apt for its mirror",
    signal,
  });
  return output.match(/^'(\S+\/)dists\/\S+'/m)?.[1];
}

/** Separate apt in one folder: neither reads nor changes the machine's package state. */
export class GuestApt {
  readonly #dir: string;
  readonly #signal?: AbortSignal;

  private constructor(dir: string, signal?: AbortSignal) {
    this.#dir = dir;
    this.#signal = signal;
  }

  /** Sets up the folder and reads the package lists of `sources`. */
  static async open(dir: string, arch: Arch, sources: string[], signal?: AbortSignal): Promise<GuestApt> {
    const apt = new GuestApt(dir, signal);
    for (const folder of ["lists/partial", "archives/partial"]) {
      await Deno.mkdir(join(dir, folder), { recursive: true });
    }
    await Deno.writeTextFile(join(dir, "status"), "");
    await Deno.writeTextFile(join(dir, "sources.list"), sources.join("\n") + "\n");
    await Deno.writeTextFile(join(dir, "apt.conf"), configuration(dir, arch));
    await apt.#apt("apt-get", "reading Debian's package lists", "update");
    return apt;
  }

  /** Dependency of a meta package, such as the kernel behind `linux-image-cloud-amd64`. */
  async dependency(metaPackage: string, pattern: RegExp): Promise<string> {
    const record = await this.#apt(
      "apt-cache",
      `looking up ${metaPackage}`,
      "show",
      "--no-all-versions",
      metaPackage,
    );
    const name = record.match(/^Depends: (.*)$/m)?.[1].split(/, /).map((part) => part.split(" ")[0])
      .find((part) => pattern.test(part));
    if (name) return name;
    throw new SbxError(
      "image.package.not_found",
      `${metaPackage} depends on no kernel package`,
      {
        hint: "the mirror may be updating: try again in a few minutes",
      },
    );
  }

  /**
   * Downloads packages with everything that they depend on, verified by the archive's
   * keyring, and unpacks them into `dir`.
   *
   * @returns the folder with their content, and the paths of the packages
   */
  async closure(packages: string[], dir: string): Promise<{ dir: string; debs: string[] }> {
    const archives = join(this.#dir, "archives");
    await this.#apt(
      "apt-get",
      `downloading ${packages.join(", ")} and their libraries`,
      "install",
      "--yes",
      "--download-only",
      "--no-install-recommends",
      ...packages,
    );
    await Deno.mkdir(dir);
    const names = (await Array.fromAsync(Deno.readDir(archives))).map(({ name }) => name).sort();
    const debs = names.filter((name) => name.endsWith(".deb")).map((name) => join(archives, name));
    for (const deb of debs) {
      await run(["dpkg-deb", "-x", deb, dir], { doing: `unpacking ${basename(deb)}`, signal: this.#signal });
    }
    return { dir, debs };
  }

  /** Downloads packages, verified by the archive's keyring, and returns the folder with their content. */
  async unpack(packages: string[]): Promise<string> {
    await this.#apt("apt-get", `downloading ${packages.join(" and ")}`, "download", ...packages);
    const tree = join(this.#dir, "tree");
    await Deno.mkdir(tree);
    for await (const { name } of Deno.readDir(this.#dir)) {
      if (!name.endsWith(".deb")) continue;
      const doing = `unpacking ${name}`;
      await run(["dpkg-deb", "-x", join(this.#dir, name), tree], { doing, signal: this.#signal });
    }
    return tree;
  }

  async #apt(tool: string, doing: string, ...args: string[]): Promise<string> {
    // -c is read last: it overrides the machine's configuration but keeps its proxies.
    return await runText([tool, "-c", join(this.#dir, "apt.conf"), ...args], {
      doing,
      cwd: this.#dir,
      env: await hostEnvironment(),
      signal: this.#signal,
      hint: "check that Debian's archive is reachable: apt-get update",
    });
  }
}

function configuration(dir: string, arch: Arch): string {
  const debian = archNames(arch).debian;
  const options: Record<string, string> = {
    "APT::Architecture": debian,
    "APT::Architectures": debian,
    "APT::Sandbox::User": "root",
    "Acquire::Languages": "none",
    "Acquire::Retries": "3",
    "Dir::Etc::SourceList": join(dir, "sources.list"),
    "Dir::Etc::SourceParts": "-",
    "Dir::Etc::Preferences": "-",
    "Dir::Etc::PreferencesParts": "-",
    "Dir::State": dir,
    "Dir::State::Lists": join(dir, "lists"),
    "Dir::State::Status": join(dir, "status"),
    "Dir::Cache": dir,
    "Dir::Cache::Archives": join(dir, "archives"),
    "Dir::Cache::PkgCache": "",
    "Dir::Cache::SrcPkgCache": "",
  };
  return Object.entries(options).map(([key, value]) => `${key} "${value}";\n`).join("");
}

/**
 * Path of a file in unpacked packages: below /usr since trixie's are built
 * merged, and in bookworm's often not.
 */
export async function findFile(tree: string, path: string): Promise<string | undefined> {
  for (const each of [join(tree, "usr", path), join(tree, path)]) {
    if (await ifFound(Deno.stat(each))) return each;
  }
}

/** As {@linkcode findFile}. @throws {SbxError} `image.package.incomplete` */
export async function requireFile(tree: string, path: string): Promise<string> {
  const found = await findFile(tree, path);
  if (found) return found;
  throw new SbxError("image.package.incomplete", `Debian's packages have no ${path}, which an image needs`);
}
