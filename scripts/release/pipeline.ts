/** The stages of a release, in order. */
import { join } from "node:path";
import { blake3File } from "../../lib/base/hash/mod.ts";
import { debianVersion } from "../../lib/publish/package/mod.ts";
import { writeLedger } from "./ledger.ts";
import { type MacCredentials, macNotarize, macPreflight, macSign } from "./mac.ts";
import { preflight } from "./preflight.ts";
import type { Command, Runner } from "./runner.ts";
import type { Stage } from "./stage.ts";

export interface Options {
  version: string;
  /** of the tag */
  commit: string;
  work: string;
  /** workspace of sbx-admin release */
  releases: string;
  /** folder that a web server serves */
  publish: string;
  source: string;
  builder: string;
  channel: string;
  /** folder with the publisher's keys; default is that of the workspace */
  keys?: string;
  /** secret OpenPGP key of the apt repository */
  aptKey?: string;
  /** architectures of Linux */
  arches: string[];
  /** absent: no installer for macOS */
  mac?: MacCredentials;
}

/** Where packages install the program. */
const PROGRAM = "/usr/bin/sbx", MAC_PROGRAM = "/usr/local/bin/sbx";
const DEBIAN: Record<string, string> = { x86_64: "amd64", arm64: "arm64" };
const NO_MAC = "no credentials for macOS were named";

export function stagesOf(options: Options, runner: Runner): Stage[] {
  const { version, commit, work, releases, publish, channel, arches, mac } = options;
  const source = join(work, "source");
  const run = (argv: string[], more: Partial<Command> = {}) => runner.run({ argv, ...more });
  const inSource = (argv: string[], env: Record<string, string> = {}) => run(argv, { cwd: source, env });
  const keys = options.keys ? ["--keys", options.keys] : [];
  const admin = (...words: string[]) => run([join(source, "bin/sbx-admin"), ...words]);
  const debs = arches.map((arch) => `packages/sbx_${debianVersion(version)}_${DEBIAN[arch]}.deb`);
  const spdx = (deb: string) => deb.replace(/\.deb$/, ".spdx.json");
  const pkg = `packages/sbx-${version}.pkg`;

  return [
    {
      name: "preflight",
      inputs: [],
      outputs: [],
      run: async () => {
        await preflight(runner, options);
        if (mac) await macPreflight(runner, mac);
      },
    },
    {
      name: "source",
      inputs: [],
      outputs: ["source", "source.commit"],
      run: async () => {
        await run(["git", "clone", "--quiet", "--no-local", "--branch", `v${version}`, ".", source]);
        await run(["git", "-C", source, "verify-commit", commit]).catch(() =>
          runner.say("  the commit is not signed")
        );
        if (!runner.isDry) await Deno.writeTextFile(join(work, "source.commit"), `${commit}\n`);
      },
    },
    {
      name: "build",
      inputs: ["source.commit"],
      outputs: [
        ...debs,
        ...debs.map(spdx),
        "images",
        ...arches.map((arch) => `ledger-${arch}.json`),
      ],
      run: async () => {
        for (const arch of arches) {
          const started = new Date();
          await inSource([
            "make",
            "--silent",
            "deb",
            `OUT=${join(work, "packages")}`,
            `ARCH=${DEBIAN[arch]}`,
          ]);
          await admin("image", "build", "--arch", arch, join(work, "images"));
          if (!runner.isDry) await writeLedger(work, arch, { commit, started });
        }
      },
    },
    {
      name: "test",
      inputs: ["source.commit"],
      outputs: ["audit.json", "coverage.txt"],
      run: async () => {
        const script = (name: string, out: string) => [
          ...[".deno/deno", "run", "-A", "--quiet", "--cached-only", `scripts/release/${name}.ts`],
          join(work, out),
        ];
        await inSource(script("audit", "audit.json"));
        await inSource(["make", "--silent", "test"]);
        await inSource(script("coverage", "coverage.txt"));
      },
    },
    {
      name: "codesign",
      inputs: ["source.commit"],
      outputs: [pkg],
      skip: mac ? undefined : NO_MAC,
      run: async () => {
        const program = join(work, "mac/program");
        await inSource(["make", "--silent", "build", `OUT=${program}`]);
        await inSource(["make", "--silent", "dylib"]);
        const parts = {
          version,
          program: join(program, "sbx"),
          library: join(source, "bin/libsbxvm.dylib"),
          work: join(work, "mac"),
          out: join(work, pkg),
        };
        await macSign(runner, parts, mac!);
      },
    },
    {
      name: "notarize",
      // Stapling changes the installer, which is codesign's output: this says that it happened.
      inputs: ["source.commit"],
      outputs: ["notarized"],
      skip: mac ? undefined : NO_MAC,
      run: async () => {
        await macNotarize(runner, join(work, pkg), mac!);
        if (!runner.isDry) await Deno.writeTextFile(join(work, "notarized"), `${pkg}\n`);
      },
    },
    {
      name: "sbom",
      inputs: debs.map(spdx),
      outputs: ["sbx-sbom.spdx.json"],
      run: () => run(["cp", join(work, spdx(debs[0])), join(work, "sbx-sbom.spdx.json")]),
    },
    {
      name: "attest",
      inputs: [...debs, "sbx-sbom.spdx.json", "images"],
      outputs: ["release-attested"],
      run: async () => {
        const target = [releases, version, "--channel", channel];
        // Nothing can be added after the signature: a run stopped behind it continues there.
        const files = [...debs, "sbx-sbom.spdx.json", "images/manifest.json"];
        const state = runner.isDry ? "" : await hashesOf(files.map((name) => join(work, name)));
        const signed = join(work, "release-signed");
        if (runner.isDry || await Deno.readTextFile(signed).catch(() => "") !== state) {
          const addPackage = (file: string, sbom: string, path: string, binary: string) =>
            admin(
              ...["release", "add", ...target, "--package", join(work, file), "--sbom", join(work, sbom)],
              ...["--binary", `${path}=${binary}`],
            );
          for (const [at, deb] of debs.entries()) {
            const sbom = at === 0 ? "sbx-sbom.spdx.json" : spdx(deb);
            const unpacked = join(work, "unpacked", arches[at]);
            await run(["dpkg-deb", "--extract", join(work, deb), unpacked]);
            await addPackage(deb, sbom, PROGRAM, join(unpacked, PROGRAM));
          }
          if (mac) {
            await addPackage(pkg, "sbx-sbom.spdx.json", MAC_PROGRAM, join(work, "mac/root", MAC_PROGRAM));
          }
          const manifest = join(work, "images/manifest.json");
          await admin("release", "add", ...target, "--assets", manifest, "--revision", version);
          await admin("release", "sign", releases, ...keys);
          if (!runner.isDry) await Deno.writeTextFile(signed, state);
        }
        await admin(
          ...["release", "attest", ...target, "--source", options.source, "--commit", commit],
          ...["--builder", options.builder, "--material", join(source, "deno.lock"), ...keys],
        );
        if (!runner.isDry) await Deno.writeTextFile(join(work, "release-attested"), `${version}\n`);
      },
    },
    {
      name: "manifest",
      inputs: ["release-attested"],
      outputs: [],
      run: () => admin("release", "check", releases, ...keys),
    },
    {
      name: "publish",
      inputs: ["release-attested", ...debs],
      outputs: [],
      run: async () => {
        await admin("release", "publish", releases, publish, ...keys);
        await admin("release", "verify", publish, "--trust", join(releases, "trust.json"));
        if (options.aptKey) {
          const all = debs.map((deb) => join(work, deb));
          await admin("package", "repository", join(publish, "apt"), ...all, "--key", options.aptKey);
        }
      },
    },
  ];
}

async function hashesOf(paths: string[]): Promise<string> {
  return (await Promise.all(paths.map(async (path) => `${(await blake3File(path)).hash}  ${path}\n`))).join(
    "",
  );
}
