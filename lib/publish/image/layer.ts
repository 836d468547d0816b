/**
 * The layer: a read-only file system of everything that sbx runs in a guest, whatever the root file system
 * is. Init mounts it at {@linkcode LAYER_PATH}, and no program in it takes a library, an interpreter or a
 * configuration from the root file system.
 */
import { Buffer } from "node:buffer";
import { basename, join } from "node:path";
import type { Arch } from "../../base/arch/mod.ts";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import {
  COMMANDS,
  COMMANDS_PATH,
  CONTAINER_APT_PATH,
  LAYER_PATH,
  RUNTIMES_PATH,
} from "../../machine/guest/wire/mod.ts";
import { CONFLICTS } from "./conflicts.ts";
import { CONTAINER_APT, DOCKER, DOCKER_PATH, RUNTIME, RUNTIMES } from "./docker.ts";
import { run, runText, throwIfInterrupted } from "./command.ts";
import { GUEST_PROGRAMS } from "./guest.ts";
import { KEEPER } from "./keeper.ts";
import type { ModuleTree } from "./module.ts";
import {
  COMPANIONS,
  FORWARD_RULES,
  FORWARD_RULES_PATH,
  KERNEL_PATH,
  LATE_FOLDERS,
  LATE_MODULES,
  MODULES_PATH,
  NETWORK_MODULES,
  RULES,
} from "./network.ts";
import { findFile, type GuestApt, requireFile } from "./packages.ts";
import { SSHD } from "./sshd.ts";

/** Debian packages whose programs the layer has; their dependencies are looked up. */
const PACKAGES = [
  "busybox-static",
  "ca-certificates",
  "e2fsprogs",
  "libgcc-s1",
  "nftables",
  "openssh-server",
  "perl-base",
];

/** Programs by their name in `bin/`, with their paths in Debian's packages. */
const PROGRAMS: Record<string, string> = {
  "busybox": "bin/busybox",
  "mkfs.ext4": "sbin/mke2fs",
  "nft": "sbin/nft",
  "perl": "bin/perl",
  "resize2fs": "sbin/resize2fs",
  "ssh-keygen": "bin/ssh-keygen",
  "sshd": "sbin/sshd",
};
/** Programs that sshd starts, in OpenSSH from 9.8 and from 10 on. */
const SSHD_PROGRAMS = ["sshd-session", "sshd-auth"];

/** Modules of Perl that the keeper uses. */
const PERL_MODULES = ["Config.pm", "strict.pm", "warnings.pm"];

/** Stand-in for nsswitch.conf. */
const NAME_SERVICES = `${LAYER_PATH}/nsswc`;

/**
 * Files of the root file system that the C library reads, and their stand-ins in the layer. Paths of the same
 * length, so that the library's own strings can be replaced. A preloaded library, a cache of libraries or a
 * service of names would be the root file system's code in a program of sbx.
 */
export const REDIRECTED: readonly (readonly [string, string])[] = [
  ["/etc/ld.so.preload", `${LAYER_PATH}/nopre`],
  ["/etc/ld.so.cache", `${LAYER_PATH}/ldc`],
  ["/etc/nsswitch.conf", NAME_SERVICES],
];
/** Content of {@linkcode NAME_SERVICES}; the other stand-ins are missing. */
const NAMES = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n";

const TRIPLETS: Record<Arch, string> = { x86_64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu" };
/** Fixed UUID, so that the same tree gives the same image. */
const IMAGE_UUID = "5b8a2f10-0000-4000-8000-7362780a0002";

/** Input of a layer. */
export interface LayerParts {
  arch: Arch;
  apt: GuestApt;
  modules: ModuleTree;
  /** path of the guest's Deno */
  deno: string;
  /** folder with a `<name>.js` for each guest program */
  guestDir: string;
}

/** A layer that was built. */
export interface Layer {
  /** path of the image */
  path: string;
  /** the packages that its files may be from, as `/var/lib/dpkg/status` has them */
  status: string;
  /** lines `<package>/copyright:License: <name>` */
  licenses: string;
}

/** Builds the layer's image in `work`. @throws {SbxError} `image.*` */
export async function buildLayer(parts: LayerParts, work: string, signal?: AbortSignal): Promise<Layer> {
  const tree = join(work, "tree");
  const { dir, debs } = await parts.apt.closure(PACKAGES, join(work, "packages"));
  for (const folder of ["bin", "lib", "perl", basename(COMMANDS_PATH), basename(RUNTIMES_PATH)]) {
    await Deno.mkdir(join(tree, folder), { recursive: true });
  }
  const libraries = new Libraries(dir, join(tree, "lib"), parts.arch, signal);
  await Deno.rename(parts.deno, join(tree, "bin/deno"));
  for (const [name, path] of Object.entries(PROGRAMS)) {
    await Deno.copyFile(await requireFile(dir, path), join(tree, "bin", name));
  }
  for (const name of SSHD_PROGRAMS) {
    const path = await findFile(dir, `lib/openssh/${name}`);
    if (path) await Deno.copyFile(path, join(tree, "bin", name));
  }
  for await (const { name } of Deno.readDir(join(tree, "bin"))) {
    await Deno.chmod(join(tree, "bin", name), 0o755);
    await libraries.link(join(tree, "bin", name));
  }
  await libraries.redirect();
  await writePerl(dir, tree, TRIPLETS[parts.arch]);
  await writeTexts(parts, dir, tree);
  await writeModules(parts.modules, tree);
  throwIfInterrupted(signal);
  const path = join(work, "layer.erofs");
  const hints = join(work, "hints");
  // Deno is as large as the rest together, and read whole by each boot.
  await Deno.writeTextFile(hints, "0 ^bin/deno$\n");
  await run(
    [
      "mkfs.erofs",
      "--quiet",
      "-T0",
      "--all-root",
      "-U",
      IMAGE_UUID,
      "-zlz4",
      `--compress-hints=${hints}`,
      path,
      tree,
    ],
    { doing: "building the layer", signal },
  );
  return { path, status: await statusOf(debs, signal), licenses: await licensesOf(dir) };
}

/** The shared libraries of the layer's programs. */
class Libraries {
  readonly #dir: string;
  readonly #out: string;
  readonly #triplet: string;
  readonly #signal?: AbortSignal;
  readonly #linked = new Set<string>();

  constructor(dir: string, out: string, arch: Arch, signal?: AbortSignal) {
    this.#dir = dir;
    this.#out = out;
    this.#triplet = TRIPLETS[arch];
    this.#signal = signal;
  }

  /**
   * Adds the libraries of a program or library, and makes it use these and their loader
   * alone. A static program has none.
   */
  async link(path: string): Promise<void> {
    const needed = await this.#patchelf("--print-needed", path).catch(() => "");
    const loader = basename(await this.#patchelf("--print-interpreter", path).catch(() => ""));
    for (const name of [...needed.split("\n"), loader].filter(Boolean)) {
      if (this.#linked.has(name)) continue;
      this.#linked.add(name);
      const library = join(this.#out, name);
      await Deno.copyFile(await this.#find(name), library);
      await Deno.chmod(library, 0o755);
      // The loader has no path of its own.
      if (!name.startsWith("ld-linux")) await this.link(library);
    }
    const paths = `${LAYER_PATH}/lib`;
    if (loader) {
      await this.#patchelf("--set-interpreter", `${paths}/${loader}`, "--set-rpath", paths, path);
    } else if (needed) await this.#patchelf("--set-rpath", paths, path);
  }

  /**
   * @throws {SbxError} `image.layer.failed`: a library has no such string, so
   * that another version needs a look
   */
  async redirect(): Promise<void> {
    const files = [...this.#linked].filter((name) => name.startsWith("ld-linux") || name === "libc.so.6");
    const missing = new Set(REDIRECTED.map(([from]) => from));
    for (const name of files) {
      const path = join(this.#out, name);
      const bytes = Buffer.from(await Deno.readFile(path));
      for (const [from, to] of REDIRECTED) {
        for (let at; (at = bytes.indexOf(`${from}\0`)) >= 0;) {
          missing.delete(from);
          bytes.write(to, at);
        }
      }
      await Deno.writeFile(path, bytes);
    }
    if (missing.size === 0) return;
    const names = [...missing].join(", ");
    throw new SbxError(
      "image.layer.failed",
      `Debian's C library does not name ${names}: sbx cannot set it apart`,
    );
  }

  async #find(name: string): Promise<string> {
    const ofArch = await findFile(this.#dir, join("lib", this.#triplet, name));
    return ofArch ?? await requireFile(this.#dir, join("lib", name));
  }

  async #patchelf(...args: string[]): Promise<string> {
    const doing = "linking the programs of the layer";
    return (await runText(["patchelf", ...args], { doing, signal: this.#signal })).trim();
  }
}

async function writePerl(dir: string, tree: string, triplet: string): Promise<void> {
  for (const name of PERL_MODULES) {
    const path = await requireFile(dir, join("lib", triplet, "perl-base", name));
    await Deno.copyFile(path, join(tree, "perl", name));
  }
}

/**
 * Command line of a guest program: all permissions, no downloads, no configuration
 * lookup, no look for a newer Deno.
 */
const DENO_RUN =
  `exec ${LAYER_PATH}/bin/deno run -A --unstable-vsock --unstable-net --no-config --no-lock --no-remote --no-npm --quiet`;
/** Begin of a command: variables that a person's shell sets for its own programs are not for this one. */
const COMMAND = `#!${LAYER_PATH}/bin/sh
unset LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
export DENO_NO_UPDATE_CHECK=1
`;

async function writeTexts({ guestDir }: LayerParts, dir: string, tree: string): Promise<void> {
  const text = async (path: string, content: string, mode = 0o644) => {
    await Deno.writeTextFile(join(tree, path), content, { mode });
    await Deno.chmod(join(tree, path), mode);
  };
  await Deno.symlink("busybox", join(tree, "bin/sh"));
  for (const name of GUEST_PROGRAMS) {
    await text(`${name}.js`, await Deno.readTextFile(join(guestDir, `${name}.js`)));
  }
  const commands = basename(COMMANDS_PATH);
  for (const name of COMMANDS.filter((name) => GUEST_PROGRAMS.includes(name))) {
    await text(`${commands}/${name}`, `${COMMAND}${DENO_RUN} ${LAYER_PATH}/${name}.js "$@"\n`, 0o755);
  }
  await text(`${commands}/sbx-sshd`, SSHD, 0o755);
  await text(`${commands}/sbx-conflicts`, CONFLICTS, 0o755);
  await text("sbx-keeper", KEEPER, 0o755);
  await text(basename(DOCKER_PATH), DOCKER, 0o755);
  for (const name of RUNTIMES) await text(`${basename(RUNTIMES_PATH)}/${name}`, RUNTIME, 0o755);
  await text(basename(CONTAINER_APT_PATH), CONTAINER_APT);
  await text("net.nft", RULES);
  await text(basename(FORWARD_RULES_PATH), FORWARD_RULES);
  await text(basename(NAME_SERVICES), NAMES);
  const authorities = await requireFile(dir, "share/ca-certificates/mozilla");
  const names = (await Array.fromAsync(Deno.readDir(authorities))).map(({ name }) => name).sort();
  const certificates = await Promise.all(names.map((name) => Deno.readTextFile(join(authorities, name))));
  await text("ca-certificates.crt", certificates.join(""));
}

/**
 * Kernel modules of the network: their order for init, which loads some, and the names by which
 * the kernel asks for the others.
 */
async function writeModules(modules: ModuleTree, tree: string): Promise<void> {
  const first = await modules.loadOrder(NETWORK_MODULES);
  const late = [...modules.inFolders(LATE_FOLDERS), ...LATE_MODULES];
  const all = await modules.loadOrder([...NETWORK_MODULES, ...late]);
  const folder = join(tree, basename(KERNEL_PATH));
  await Deno.mkdir(join(folder, "for"), { recursive: true });
  for (const { name, bytes, aliases } of all) {
    await Deno.writeFile(join(folder, `${name}.ko`), bytes, { mode: 0o644 });
    const order = await modules.loadOrder([name, ...COMPANIONS[name] ?? []]);
    const names = `${order.map((each) => each.name).join(" ")}\n`;
    for (const alias of [name, ...aliases]) {
      await Deno.writeTextFile(join(folder, "for", alias), names, { mode: 0o644 });
    }
  }
  const lines = first.map(({ name }) => `${KERNEL_PATH.slice(1)}/${name}.ko\n`);
  await Deno.writeTextFile(join(tree, basename(MODULES_PATH)), lines.join(""), { mode: 0o644 });
}

async function licensesOf(dir: string): Promise<string> {
  const doc = join(dir, "usr/share/doc");
  const lines: string[] = [];
  for await (const { name } of Deno.readDir(doc)) {
    const text = await ifFound(Deno.readTextFile(join(doc, name, "copyright"))) ?? "";
    lines.push(
      ...text.split("\n").filter((line) => line.startsWith("License:")).map((line) =>
        `${name}/copyright:${line}`
      ),
    );
  }
  return lines.sort().join("\n");
}

/** Control fields of packages, as dpkg keeps them of installed ones. */
async function statusOf(debs: string[], signal?: AbortSignal): Promise<string> {
  const records = await Promise.all(
    debs.map((path) => runText(["dpkg-deb", "-f", path], { doing: `reading ${basename(path)}`, signal })),
  );
  return records.map((record) => `${record.trimEnd()}\nStatus: install ok installed\n`).join("\n");
}
