import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { type Arch, archNames } from "./arch.ts";
import { run, runText } from "./command.ts";

/** Debian release of the guest, whatever the host's is: one image behaves alike everywhere. */
export const GUEST_SUITE = "bookworm";

const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/**
 * Sources of the guest's suite: the mirrors that this machine's own apt uses, so that none is named here.
 *
 * @throws {SbxError} `image.mirror.not_found` when apt knows no Debian archive
 */
export async function debianSources(arch: Arch, signal?: AbortSignal): Promise<string[]> {
  const listed = await runText(
    ["apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
    { doing: "asking apt for its mirror", signal },
  );
  const targets = listed.split("\n").map((line) => line.split("|"));
  const uriOf = (label: string) => targets.find(([name]) => name === label)?.[1];
  const archive = uriOf("Debian") ?? await firstSource(signal);
  if (!archive) {
    throw new SbxError("image.mirror.not_found", "this machine's apt knows no Debian archive", {
      hint: "run apt-get update, or add a Debian mirror to /etc/apt/sources.list.d",
    });
  }
  const security = uriOf("Debian-Security");
  const source = (uri: string, suite: string) =>
    `deb [arch=${archNames(arch).debian} signed-by=${KEYRING}] ${uri} ${suite} main`;
  return [
    source(archive, GUEST_SUITE),
    source(archive, `${GUEST_SUITE}-updates`),
    ...(security ? [source(security, `${GUEST_SUITE}-security`)] : []),
  ];
}

/** The first source of a machine whose apt has read no lists yet. Whatever it is, the archive's keyring judges it. */
async function firstSource(signal?: AbortSignal): Promise<string | undefined> {
  const planned = await runText(["apt-get", "update", "--print-uris"], {
    doing: "asking apt for its mirror",
    signal,
  });
  return planned.match(/^'(\S+\/)dists\/\S+'/m)?.[1];
}

/** An apt of its own in one folder: it reads and changes nothing of the machine's. */
export class GuestApt {
  readonly #dir: string;
  readonly #signal?: AbortSignal;

  private constructor(dir: string, signal?: AbortSignal) {
    this.#dir = dir;
    this.#signal = signal;
  }

  /** Sets the folder up and reads the package lists of `sources`. */
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

  /** The real package behind a meta package, such as the kernel that `linux-image-cloud-amd64` stands for. */
  async dependency(metaPackage: string, pattern: RegExp): Promise<string> {
    const shown = await this.#apt(
      "apt-cache",
      `looking up ${metaPackage}`,
      "show",
      "--no-all-versions",
      metaPackage,
    );
    const name = shown.match(/^Depends: (.*)$/m)?.[1].split(/, /).map((part) => part.split(" ")[0])
      .find((part) => pattern.test(part));
    if (name) return name;
    throw new SbxError(
      "image.package.not_found",
      `${metaPackage} of ${GUEST_SUITE} names no kernel to install`,
      {
        hint: "the mirror may be in the middle of an update: try again in some minutes",
      },
    );
  }

  /** Downloads packages, verified by the archive's keyring, and answers the folder that holds what is in them. */
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

  #apt(tool: string, doing: string, ...args: string[]): Promise<string> {
    // -c is read last: it wins over what the machine sets, and the machine's proxies still hold.
    return runText([tool, "-c", join(this.#dir, "apt.conf"), ...args], {
      doing,
      cwd: this.#dir,
      signal: this.#signal,
      hint: "is Debian's archive reachable? apt-get update on this machine should work too",
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
