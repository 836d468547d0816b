/** Writes an apt repository, signed with GPG (docs/design/contracts/10-release.md §10). */
import { createHash } from "node:crypto";
import { basename, dirname, join, relative } from "node:path";
import { gzipSync } from "node:zlib";
import { ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { accessProblem, writeAtomic } from "../../base/home/mod.ts";
import { requireTools, runTool } from "./deb.ts";

/** Options of an apt repository. */
export interface RepositoryOptions {
  /** paths of the packages to add */
  debs: readonly string[];
  /** folder of the repository; existing files stay */
  out: string;
  /** file with the secret OpenPGP key that signs it */
  key: string;
  /** such as `stable` */
  suite: string;
  /** the publisher, in one word; default is the repository's, or else `sbx` */
  origin?: string;
  /** file with the public key that signed the published index, where `key` replaces it */
  oldKey?: string;
  /** days until apt refuses the signed index: no mirror can serve an old one for longer */
  validDays: number;
  /** time of the index; default is now */
  date?: Date;
}

/** Result of {@linkcode writeRepository}. */
export interface Repository {
  out: string;
  suite: string;
  architectures: string[];
  /** number of packages in the index */
  packages: number;
  valid_until: string;
  /** fingerprint of the key */
  signed_by: string;
  /** file with the public key, for `Signed-By` */
  keyring: string;
}

const encoder = new TextEncoder();
const DEFAULT_ORIGIN = "sbx";
const COMPONENT = "main";
const ARCHITECTURES = ["amd64", "arm64"];
const DAY_MS = 86_400_000;
/** Hashes of the index, as apt names them. */
const HASHES = ["SHA256", "SHA512"] as const;

/**
 * Adds packages to a suite of a repository that any web server can serve, and signs its index again.
 * The suite keeps the packages of its signed index, with their hashes: other files of the pool are not
 * signed. Indices are also written under their hashes, and `InRelease` is written last, so that no client
 * mixes two states.
 *
 * @throws {SbxError} `package.repository_conflict`: another file with this name is published;
 * `package.repository_changed`: a published file has other bytes; `package.index_untrusted`: the published
 * index has no signature of this key; `package.origin_changed`; `package.file_invalid`: a package is
 * damaged; `package.file_missing`, `package.repository_incomplete`, `package.key_invalid`,
 * `package.tool_missing`, `package.tool_failed`
 */
export async function writeRepository(options: RepositoryOptions): Promise<Repository> {
  const { debs, out, suite, validDays, date = new Date() } = options;
  await requireTools(["apt-ftparchive", "dpkg-deb", "gpg"], "writing a repository");
  const added: NewDeb[] = [];
  for (const path of debs) added.push(await checkDeb(path, out));
  await using signer = await openSigner(options.key, options.oldKey);
  await Deno.mkdir(out, { recursive: true });
  using lock = await Deno.open(join(out, ".lock"), { create: true, write: true, mode: 0o600 });
  await lock.lock(true);
  const dist = join(out, "dists", suite);
  const published = await readPublished(dist, signer);
  const origin = options.origin ?? published.origin ?? await originOf(out, signer) ?? DEFAULT_ORIGIN;
  if (published.origin !== undefined && published.origin !== origin) {
    throw new SbxError(
      "package.origin_changed",
      `${suite} of ${out} is published by ${published.origin}: clients of apt refuse it from ${origin}`,
      { hint: "leave out --origin, or publish into another folder" },
    );
  }
  for (const deb of added) {
    // Asked again: another run may have published one meanwhile.
    if (!await isPublished(deb)) await write(deb.target, await Deno.readFile(deb.path));
    published.hashes.set(relative(out, deb.target), deb.hash);
  }
  const { architectures, listed, indices } = await readPool(out, published.hashes);
  const missing = added.filter(({ target }) => !listed.has(relative(out, target)));
  if (missing.length > 0) {
    throw new SbxError(
      "package.repository_incomplete",
      `${basename(missing[0].path)} is in the pool of ${out}, and apt-ftparchive did not list it`,
      { hint: "the index was not changed; dpkg-deb --info FILE shows the package's fields" },
    );
  }
  for (const [name, bytes] of indices) await writeIndex(dist, name, bytes);
  const until = new Date(date.getTime() + validDays * DAY_MS);
  const release = releaseText({ origin, suite, architectures, date, until, indices });
  await write(join(dist, "Release"), release);
  await write(join(dist, "Release.gpg"), await signer.detach(release));
  const keyring = join(out, `${origin}-archive-keyring.pgp`);
  await write(keyring, signer.publicKey);
  await write(join(dist, "InRelease"), await signer.clear(release));
  return {
    out,
    suite,
    architectures,
    packages: listed.size,
    valid_until: until.toISOString(),
    signed_by: signer.fingerprint,
    keyring,
  };
}

/** A checked package. */
interface NewDeb {
  path: string;
  /** its path in the pool */
  target: string;
  /** its SHA-256 */
  hash: string;
}

/**
 * Checks a package before any file is written: its name, its fields, every byte of its content, and that it
 * replaces no published file.
 *
 * @throws {SbxError} `package.file_missing`, `package.file_invalid`, `package.repository_conflict`
 */
async function checkDeb(path: string, out: string): Promise<NewDeb> {
  const bytes = await Deno.readFile(path).catch((cause) => {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new SbxError("package.file_missing", `there is no package ${path}`, {
      cause,
      hint: "make deb makes one in dist/",
    });
  });
  const file = basename(path);
  const [, name] = file.match(/^([a-z0-9][a-z0-9+.-]+)_[^_/]+_[a-z0-9]+\.deb$/) ?? [];
  if (!name) {
    throw invalid(path, "is not named like a Debian package", "its name is NAME_VERSION_ARCHITECTURE.deb");
  }
  const problem = await problemOf(path);
  if (problem !== undefined) throw invalid(path, problem, "build or copy it again");
  const target = join(out, "pool", COMPONENT, name[0], name, file);
  const deb = { path, target, hash: hashOf("SHA256", bytes) };
  // Other bytes are refused before anything is written.
  await isPublished(deb);
  return deb;
}

/** Returns whether the pool has a package. @throws {SbxError} `package.repository_conflict` */
async function isPublished({ target, hash }: NewDeb): Promise<boolean> {
  const old = await Deno.readFile(target).catch(() => undefined);
  if (old && hashOf("SHA256", old) === hash) return true;
  // A damaged file was never in an index, so it may be replaced.
  if (old && await problemOf(target) === undefined) {
    const file = basename(target);
    throw new SbxError("package.repository_conflict", `${file} is published already, with other bytes`, {
      hint: "build it with another version: machines that have the published one would never get this one",
    });
  }
  return false;
}

function invalid(path: string, problem: string, hint: string): SbxError {
  return new SbxError("package.file_invalid", `${path} ${problem}`, { hint: `nothing was written; ${hint}` });
}

/** Reason why a file is not the complete package that its name states; undefined if it is. */
async function problemOf(path: string): Promise<string | undefined> {
  const read = async (...args: string[]) =>
    new TextDecoder().decode(await runTool(["dpkg-deb", ...args], { doing: `reading ${path}` }));
  let fields: string;
  try {
    // Unpacks all of it: a partial download ends early.
    await read("--contents", path);
    fields = await read("--show", "--showformat=${Package} ${Version} ${Architecture}", path);
  } catch (error) {
    if (!(error instanceof SbxError) || error.code !== "package.tool_failed") throw error;
    return "is damaged or incomplete: dpkg-deb cannot read it";
  }
  const [name, version, arch] = fields.split(" ");
  if (arch !== "all" && !ARCHITECTURES.includes(arch)) {
    return `is of architecture ${arch}, which sbx does not have`;
  }
  const expected = `${name}_${version.replace(/^\d+:/, "")}_${arch}.deb`;
  return basename(path) === expected ? undefined : `has the content of ${expected}`;
}

/** Indices of the packages in the pool. */
interface PoolIndex {
  /** architectures with packages */
  architectures: string[];
  /** paths of the packages, relative to the repository */
  listed: Set<string>;
  /** texts of the indices by their paths below `dists/SUITE` */
  indices: Map<string, Uint8Array>;
}

/**
 * Makes the indices of the packages that are in the pool.
 *
 * @param hashes of all packages that may be listed, by their paths
 * @throws {SbxError} `package.repository_changed`
 */
async function readPool(out: string, hashes: ReadonlyMap<string, string>): Promise<PoolIndex> {
  const architectures: string[] = [];
  const listed = new Set<string>();
  const indices = new Map<string, Uint8Array>();
  for (const arch of ARCHITECTURES) {
    const entries = new TextDecoder().decode(await packageIndex(out, arch)).split(/\n{2,}/).filter(
      (entry) => {
        const { path, hash } = packageOf(entry);
        if (path === undefined || !hashes.has(path)) return false;
        if (hashes.get(path) !== hash) throw changed(out, path);
        listed.add(path);
        return true;
      },
    );
    if (entries.length === 0) continue;
    architectures.push(arch);
    const text = encoder.encode(entries.map((entry) => `${entry.trim()}\n\n`).join(""));
    const name = `${COMPONENT}/binary-${arch}/Packages`;
    indices.set(name, text).set(`${name}.gz`, new Uint8Array(gzipSync(text, { level: 9 })));
  }
  return { architectures, listed, indices };
}

/** Path in the pool, and SHA-256, of an entry of an index. */
function packageOf(entry: string): { path?: string; hash?: string } {
  return { path: entry.match(/^Filename: (.+)$/m)?.[1], hash: entry.match(/^SHA256: ([0-9a-f]{64})$/m)?.[1] };
}

function changed(out: string, path: string): SbxError {
  return new SbxError(
    "package.repository_changed",
    `${join(out, path)} is not the file that was published`,
    { hint: "nothing was signed; put the published file back, or remove it and publish a later version" },
  );
}

/** Origin of a repository's other suites. @throws {SbxError} as {@linkcode readPublished} */
async function originOf(out: string, signer: Signer): Promise<string | undefined> {
  const suites = await ifFound(Array.fromAsync(Deno.readDir(join(out, "dists")))) ?? [];
  for (const { name } of suites) {
    const { origin } = await readPublished(join(out, "dists", name), signer);
    if (origin !== undefined) return origin;
  }
}

/** Contents of a signed index. */
interface Published {
  origin?: string;
  /** SHA-256 of each package by its path, such as `pool/main/s/sbx/sbx_1.0_amd64.deb` */
  hashes: Map<string, string>;
}

/**
 * Reads a suite's index as it was signed. A run that ended before `InRelease` was written changed nothing.
 * @throws {SbxError} `package.index_untrusted`, `package.repository_changed`
 */
async function readPublished(dist: string, signer: Signer): Promise<Published> {
  const path = join(dist, "InRelease");
  const hashes = new Map<string, string>();
  if (await ifFound(Deno.stat(path)) === undefined) return { hashes };
  const text = await signer.verified(path);
  for (const arch of ARCHITECTURES) {
    const index = `${COMPONENT}/binary-${arch}/Packages`;
    const hash = text.match(new RegExp(`^ ([0-9a-f]{64}) \\d+ ${index}$`, "m"))?.[1];
    if (hash === undefined) continue;
    const file = join(dirname(index), "by-hash/SHA256", hash);
    const bytes = await ifFound(Deno.readFile(join(dist, file)));
    if (bytes === undefined || hashOf("SHA256", bytes) !== hash) throw changed(dist, file);
    for (const entry of new TextDecoder().decode(bytes).split("\n\n")) {
      const { path, hash } = packageOf(entry);
      if (path !== undefined && hash !== undefined) hashes.set(path, hash);
    }
  }
  return { origin: text.match(/^Origin: (.+)$/m)?.[1], hashes };
}

async function packageIndex(out: string, arch: string): Promise<Uint8Array> {
  const doing = `listing the packages of ${arch}`;
  return await runTool(["apt-ftparchive", "--arch", arch, "packages", "pool"], { doing, cwd: out });
}

/** Writes an index under its name and under its hash; earlier ones stay under their hashes. */
async function writeIndex(dist: string, name: string, bytes: Uint8Array): Promise<void> {
  const folder = dirname(join(dist, name));
  for (const kind of HASHES) await write(join(folder, "by-hash", kind, hashOf(kind, bytes)), bytes);
  await write(join(dist, name), bytes);
}

function releaseText({ origin, suite, architectures, date, until, indices }: {
  origin: string;
  suite: string;
  architectures: string[];
  date: Date;
  until: Date;
  indices: Map<string, Uint8Array>;
}): string {
  const time = (date: Date) => date.toUTCString().replace("GMT", "+0000");
  const hashes = HASHES.map((kind) => {
    const lines = [...indices].map(([name, bytes]) => ` ${hashOf(kind, bytes)} ${bytes.length} ${name}\n`);
    return `${kind}:\n${lines.join("")}`;
  });
  return `Origin: ${origin}
Label: ${origin}
Suite: ${suite}
Codename: ${suite}
Date: ${time(date)}
Valid-Until: ${time(until)}
Acquire-By-Hash: yes
Architectures: ${architectures.join(" ")}
Components: ${COMPONENT}
${hashes.join("")}`;
}

/** Signs with one OpenPGP key, kept in a temporary folder until this object is disposed of. */
interface Signer extends AsyncDisposable {
  fingerprint: string;
  /** binary */
  publicKey: Uint8Array;
  /** makes an armoured signature, to be stored beside the text */
  detach(text: string): Promise<string>;
  /** makes a text with its signature around it */
  clear(text: string): Promise<string>;
  /**
   * @returns the signed text of a file that {@linkcode clear} made
   * @throws {SbxError} `package.index_untrusted`
   */
  verified(path: string): Promise<string>;
}

/** Fingerprint of a secret key in gpg's list: subkeys have lines of another type. */
const SECRET_KEY = /^sec:[^\n]*\n(?:grp:[^\n]*\n)?fpr:+([0-9A-F]+):/gm;

const GPG = ["--batch", "--no-tty", "--quiet", "--pinentry-mode", "loopback"];

/**
 * Opens the secret key in a file. The user's own keys are neither used nor read.
 *
 * @param oldKey file with a further public key whose signatures are verified
 * @throws {SbxError} `package.key_invalid`: the file is missing, others can read it, or it does not hold
 * exactly one secret key
 */
async function openSigner(path: string, oldKey?: string): Promise<Signer> {
  await requirePrivate(path);
  const home = await Deno.makeTempDir({ prefix: "sbx-gpg-" });
  const run = (args: string[], doing: string) =>
    runTool(["gpg", "--homedir", home, ...GPG, ...args], { doing });
  const close = async () => {
    await runTool(["gpgconf", "--homedir", home, "--kill", "all"], { doing: "ending gpg-agent" })
      .catch(ignore("the agent ends once its folder is gone"));
    await Deno.remove(home, { recursive: true });
  };
  try {
    await run(["--import", path], `reading the key ${path}`);
    const listed = new TextDecoder().decode(
      await run(["--with-colons", "--list-secret-keys"], `reading the key ${path}`),
    );
    const keys = [...listed.matchAll(SECRET_KEY)].map(([, fingerprint]) => fingerprint);
    if (keys.length !== 1) throw keyError(path, `it holds ${keys.length} secret keys, not one`);
    const [fingerprint] = keys;
    if (oldKey !== undefined) {
      await run(["--import", oldKey], `reading the key ${oldKey}`).catch((cause) => {
        throw new SbxError("package.key_invalid", `${oldKey} holds no public key`, {
          cause,
          hint: "gpg --export NAME writes one",
        });
      });
    }
    const sign = async (how: string, text: string) => {
      const input = join(home, "input");
      await Deno.writeTextFile(input, text);
      const options = ["--local-user", fingerprint, "--digest-algo", "SHA512", "--armor", "--output", "-"];
      return new TextDecoder().decode(await run([...options, how, input], "signing the index"));
    };
    return {
      fingerprint,
      publicKey: await run(["--export", fingerprint], "exporting the public key"),
      detach: (text) => sign("--detach-sign", text),
      clear: (text) => sign("--clear-sign", text),
      verified: async (signed) => {
        const text = await run(
          ["--trust-model", "always", "--output", "-", "--verify", signed],
          `verifying ${signed}`,
        )
          .catch((cause) => {
            throw new SbxError("package.index_untrusted", `${signed} is not signed by the key ${path}`, {
              cause,
              hint:
                "nothing was signed; --old-key FILE names the public key that signed it, where this one replaces it",
            });
          });
        return new TextDecoder().decode(text);
      },
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function requirePrivate(path: string): Promise<void> {
  const info = await Deno.stat(path).catch(() => undefined);
  if (!info) throw keyError(path, "there is no such file");
  const refused = accessProblem(path, info, { keep: "secret", root: "owns" });
  if (refused) throw keyError(path, `it ${refused.problem}: ${refused.hint}`);
}

function keyError(path: string, reason: string): SbxError {
  return new SbxError("package.key_invalid", `the key ${path} cannot sign: ${reason}`, {
    hint: "gpg --batch --passphrase '' --quick-gen-key NAME ed25519 sign never makes one; " +
      "gpg --export-secret-keys NAME writes it",
  });
}

function hashOf(kind: (typeof HASHES)[number], bytes: Uint8Array): string {
  return createHash(kind).update(bytes).digest("hex");
}

async function write(path: string, data: string | Uint8Array): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  await writeAtomic(path, data, 0o644);
}
