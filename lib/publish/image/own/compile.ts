/**
 * Programs of Rust and Go, compiled in a Debian of their own, which goes when they are made: an image has no
 * compiler because of them. Sources are fetched as nobody, by programs of Debian alone; what packages run is
 * run as nobody without a network.
 */
import { basename, join } from "node:path";
import type { Arch } from "../../../base/arch/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { hostEnvironment } from "../../../base/proxy/mod.ts";
import { quoteWord } from "../../../base/text/mod.ts";
import { parseToml } from "../../../base/toml/mod.ts";
import type { Packages } from "../../../config/profile/mod.ts";
import { archNames } from "../arch.ts";
import { run, throwIfInterrupted } from "../command.ts";
import { asRoot } from "../root.ts";
import type { OwnPackage } from "./component.ts";
import { CONFINED, requireStep, STEPS } from "./confined.ts";
import type { OwnFiles } from "./file.ts";

/** Debian packages of the compilers. */
const CARGO = ["cargo", "gcc", "libc6-dev", "pkg-config"], GO = ["golang-go"];
/** Largest program, in `bytes`. */
const PROGRAM_BYTES_MAX = 1e9;
/**
 * Steps in their order. Fetching and Go run Debian's programs alone; crates have build scripts, which
 * could write a lock and Go's programs, so that they are the last and give programs alone.
 */
const COMPILED = ["fetch", "go", "crates"];
/** Names of programs and locks that are taken over. */
const TAKEN = /^(bin|lock)\.[A-Za-z0-9][\w.-]{0,127}$/;

/**
 * Hook on the finished tree, `$1`: `/build` belongs to root, so that nothing replaces `in` and `out`. The
 * environment of the fetch may have a proxy's password, and nothing that is built sees it.
 */
const COMPILE = `#!/bin/sh
set -eu
root=$1
${STEPS}
mkdir -m 0755 "$root/build" "$root/build/in"
mkdir -m 0700 "$root/build/work"
chown 65534:65534 "$root/build/work"
cp -r "$work/in/." "$root/build/in"
chmod -R a+rX "$root/build/in"
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [ ! -r "$file" ] || install -D -m 0644 "$file" "$root$file"
done
begin() { mkdir -m 0700 "$root/build/out"; chown 65534:65534 "$root/build/out"; }
# Later steps run other programs as the same user, and change nothing that an earlier one has given.
take() {
  mkdir "$work/out/$1"
  find "$root/build/out" -mindepth 1 -maxdepth 1 -type f -name "$2" -size -${PROGRAM_BYTES_MAX / 1e6}M \\
    -exec cp -P --no-preserve=all {} "$work/out/$1/" \\;
  rm -rf "$root/build/out"
}
begin; download fetch "$root" "$work/fetch.sh"; take fetch 'lock.*'
begin; compile go "$root" "$work/go.sh"; take go '*'
begin; compile crates "$root" "$work/crates.sh"; take crates 'bin.*'
if [ -n "\${SUDO_UID:-}" ]; then chown -R "$SUDO_UID:$SUDO_GID" "$work/out"; fi
`;

const HEAD = `#!/bin/sh
set -eu
export HOME=/build/work CARGO_HOME=/build/work/cargo CARGO_TARGET_DIR=/build/work/target CARGO_NET_GIT_FETCH_WITH_CLI=false
export GOPATH=/build/work/go GOCACHE=/build/work/gocache GOFLAGS=-mod=mod GOTOOLCHAIN=local GOVCS='*:off' CGO_ENABLED=0
cd /build/work
`;

/**
 * Compiles the programs of a profile, and places them below `overlay`.
 *
 * @param sources of the image's own Debian
 * @throws {SbxError} `image.step.failed`, `image.file.*`, `image.tool_failed`
 */
export async function compilePrograms(
  { suite, cargo, go }: Pick<Packages, "suite" | "cargo" | "go">,
  { arch, sources, own }: { arch: Arch; sources: string[]; own: OwnFiles },
  { work, overlay, signal }: { work: string; overlay: string; signal?: AbortSignal },
): Promise<OwnPackage[]> {
  if (!cargo && !go) return [];
  for (const name of ["in", "out"]) await Deno.mkdir(join(work, name), { mode: 0o755 });
  const write = (name: string, text: string, mode = 0o644) =>
    Deno.writeTextFile(join(work, name), text, { mode });
  if (cargo) await write("in/Cargo.toml", manifestOf(cargo.install));
  if (cargo?.registry) {
    const registry = JSON.stringify(cargo.registry.replace(/\/*$/, "/"));
    await write(
      "in/config.toml",
      `[source.crates-io]\nreplace-with = "own"\n[source.own]\nregistry = ${registry}\n`,
    );
  }
  if (go?.lock) await Deno.copyFile(await own.copy(go.lock), join(work, "in/go.sum"));
  const crates = (cargo?.install ?? []).map((text) => text.split("@") as [string, string]);
  const variables = Object.entries(await hostEnvironment()).map(([name, value]) =>
    `export ${name}=${quoteWord(value)}\n`
  );
  await write("fetch.sh", HEAD + variables.join("") + fetchCrates(crates) + fetchModules(go), 0o700);
  await write("go.sh", HEAD + buildModules(go), 0o700);
  await write("crates.sh", HEAD + buildCrates(crates), 0o700);
  await write("confined.sh", CONFINED, 0o755);
  const hook = join(work, "compile.sh");
  await write("compile.sh", COMPILE, 0o755);
  throwIfInterrupted(signal);
  const env = { TMPDIR: work, work };
  const include = ["ca-certificates", ...cargo ? CARGO : [], ...go ? GO : []];
  const command = [
    ...["mmdebstrap", "--variant=minbase", "--format=null", `--architectures=${archNames(arch).debian}`],
    ...[`--include=${include.join(",")}`, `--customize-hook=${hook}`, suite, "-", ...sources],
  ];
  const what = [...cargo ? ["packages.cargo"] : [], ...go ? ["packages.go"] : []].join(" and ");
  try {
    await run(await asRoot(command, env), {
      doing: `compiling ${what}`,
      env,
      signal,
      hint: "check that Debian's archive is reachable",
    });
  } catch (error) {
    throwIfInterrupted(signal);
    const reach = "check that the registry or proxy is reachable, and has exactly these versions";
    await requireStep(work, "fetch", `fetching ${what}`, reach);
    for (const step of ["go", "crates"]) {
      await requireStep(work, step, `compiling ${what}`, "there is no network while packages are compiled");
    }
    throw error;
  }
  return await takeOver(join(work, "out"), join(overlay, "usr/local/bin"), what);
}

/** A package that depends on the crates, whose lock gets their hashes. */
function manifestOf(install: string[]): string {
  const crates = install.map((text) => text.replace(/^(.+)@(.+)$/, '"$1" = "=$2"'));
  return `[package]\nname = "sbx-build"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n${
    crates.join("\n")
  }\n`;
}

function fetchCrates(crates: [string, string][]): string {
  if (crates.length === 0) return "";
  return `mkdir -p cargo crates/src
[ ! -f /build/in/config.toml ] || cp /build/in/config.toml cargo/config.toml
cp /build/in/Cargo.toml crates/
: >crates/src/lib.rs
cargo fetch --quiet --manifest-path crates/Cargo.toml
cp crates/Cargo.lock /build/out/lock.crates.toml
` + crates.map(([name, version]) =>
    `from=$(echo cargo/registry/src/*/${name}-${version})
[ -f "$from/Cargo.lock" ] || { echo "the crate ${name} ${version} has no Cargo.lock, which says what it is made of" >&2; exit 3; }
cp "$from/Cargo.lock" /build/out/lock.${name}.toml
cargo fetch --quiet --locked --manifest-path "$from/Cargo.toml"
`
  ).join("");
}

function buildCrates(crates: [string, string][]): string {
  if (crates.length === 0) return "";
  return crates.map(([name, version]) =>
    `cargo install --quiet --locked --offline --no-track --root root --path cargo/registry/src/*/${name}-${version}
`
  ).join("") + 'for program in root/bin/*; do mv "$program" "/build/out/bin.${program##*/}"; done\n';
}

/** Each package in a module of its own: the versions of one do not change those of another. */
function fetchModules(go: Packages["go"]): string {
  if (!go) return "";
  const proxy = quoteWord(go.proxy ?? "https://proxy.golang.org");
  // With a lock its hashes decide, and any other module is refused.
  return `export GOPROXY=${proxy}${go.lock ? " GOSUMDB=off" : ""}\n` +
    go.install.map((spec, at) =>
      `mkdir -p modules/${at} && cd modules/${at}
printf 'module sbx.invalid/build\\n' >go.mod
${go.lock ? "cp /build/in/go.sum go.sum && chmod 0644 go.sum\n" : ""}go get ${quoteWord(spec)}
${
        go.lock
          ? `if grep -vxFf /build/in/go.sum go.sum; then echo "the lock has no hash of these modules" >&2; exit 4; fi\n`
          : ""
      }cd ../..
`
    ).join("");
}

function buildModules(go: Packages["go"]): string {
  if (!go) return "";
  return "export GOPROXY=off GOSUMDB=off GOBIN=/build/work/gobin\n" +
    go.install.map((spec, at) =>
      `(cd modules/${at} && go install -trimpath ${quoteWord(spec.replace(/@.*/, ""))})\n`
    ).join("") + `go version -m gobin/* >/build/out/lock.go.txt
for program in gobin/*; do mv "$program" "/build/out/bin.\${program##*/}"; done
`;
}

/** Places the programs that were made. @returns the packages that they are made of */
async function takeOver(out: string, to: string, what: string): Promise<OwnPackage[]> {
  await Deno.mkdir(to, { recursive: true });
  const found = new Map<string, OwnPackage>();
  const programs = new Set<string>();
  for (const path of await compiledFiles(out)) {
    const name = basename(path);
    if (!name.startsWith("bin.")) {
      const text = await Deno.readTextFile(path);
      const packages = name.endsWith(".toml") ? cratesOf(text, name) : modulesOf(text);
      for (const each of packages) found.set(`${each.kind}:${each.name}@${each.version}`, each);
      continue;
    }
    const program = name.slice("bin.".length);
    if (programs.has(program)) {
      throw new SbxError("image.step.failed", `${what} give the program ${program} twice`, {
        hint: "name one of the two packages, and put the other's program into packages.files",
      });
    }
    programs.add(program);
    await Deno.rename(path, join(to, program));
    await Deno.chmod(join(to, program), 0o755);
  }
  if (programs.size === 0) {
    throw new SbxError("image.step.failed", `${what} gave no program`, {
      hint: "name crates and packages that have a program, and no library",
    });
  }
  return [...found.values()].sort((a, b) => `${a.kind}:${a.name}` < `${b.kind}:${b.name}` ? -1 : 1);
}

/** Files that the steps gave, in the order of steps, then of names. */
async function compiledFiles(out: string): Promise<string[]> {
  const files: string[] = [];
  for (const step of COMPILED) {
    const names = (await Array.fromAsync(Deno.readDir(join(out, step)))).map(({ name }) => name).sort();
    files.push(...names.filter((name) => TAKEN.test(name)).map((name) => join(out, step, name)));
  }
  return files;
}

/** Crates of a Cargo.lock that have a hash: the others are the package itself. */
function cratesOf(text: string, name: string): OwnPackage[] {
  const { package: crates = [] } = parseToml(text, name).value as {
    package?: { name: string; version: string; checksum?: string }[];
  };
  return crates.flatMap(({ name, version, checksum }): OwnPackage[] =>
    /^[0-9a-f]{64}$/.test(checksum ?? "")
      ? [{ kind: "cargo", name, version, hash: `sha256:${checksum}` }]
      : []
  );
}

/** Modules in the output of `go version -m`: lines `dep PATH VERSION HASH`, `mod` for the program's own. */
function modulesOf(text: string): OwnPackage[] {
  return [...text.matchAll(/^\s+(?:dep|mod)\s+(\S+)\s+(\S+)\s+(h1:[A-Za-z0-9+/]{43}=)$/gm)].map((
    [, name, version, hash],
  ): OwnPackage => ({ kind: "go", name, version, hash }));
}
