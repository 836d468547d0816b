import { dirname } from "node:path";
import { currentArch, parseArch } from "../../lib/base/arch/mod.ts";
import { formatJson, print } from "../../lib/base/print/mod.ts";
import { readManifest } from "../../lib/release/asset/mod.ts";
import { type Command, type CommandGroup, JSON_OPTION } from "../../lib/base/args/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { formatBytes, Progress } from "../../lib/base/progress/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { BUILD_STAGES, buildImage, withInterrupts } from "../../lib/publish/image/mod.ts";
import { loadProfile, type Suite, SUITES } from "../../lib/config/profile/mod.ts";
import { useNetworkOf } from "../../lib/home/mod.ts";
import { SbxError } from "../../lib/base/error/mod.ts";
import { VERSION_OPTION } from "./program.ts";

/** `sbx-admin image build`: builds the guest image of a profile, and its manifest. */
const imageBuild: Command = {
  name: "image build",
  usage: "[OPTIONS] OUT_DIR",
  summary: "build the kernel, initrd, rootfs and OBOM of a profile",
  notes: ["The exit code is 130 after an interrupt."],
  options: [
    { name: "profile", value: "ID", about: "the profile; default code" },
    { name: "arch", value: "ARCH", about: "x86_64 or arm64; default the architecture of this machine" },
    { name: "suite", value: "SUITE", about: `Debian release: ${SUITES.join(" or ")}; default the profile's` },
    VERSION_OPTION,
    JSON_OPTION,
  ],
  words: { min: 1, max: 1 },
  examples: ["sbx-admin image build dist/assets", "sbx-admin image build --arch arm64 dist/assets"],
  async run(args) {
    const [out] = args.words;
    const started = performance.now();
    const arch = parseArch(args.text("arch") ?? currentArch());
    const profile = args.text("profile") ?? "code";
    await useNetworkOf(home());
    const { packages, path: file } = await loadProfile(home(), profile);
    const path = await withInterrupts(async (signal) => {
      using progress = new Progress(BUILD_STAGES);
      return await buildImage({
        arch,
        profile,
        packages: { ...packages, suite: parseSuite(args.text("suite")) ?? packages.suite },
        ...file && { folder: dirname(file) },
        out,
        version: args.text("version"),
        binaryVersion: VERSION,
        progress,
        signal,
      });
    });
    await report(path, arch, performance.now() - started, args.has("json"));
    return 0;
  },
};

function parseSuite(name?: string): Suite | undefined {
  const suite = SUITES.find((suite) => suite === name);
  if (suite || name === undefined) return suite;
  throw new SbxError("image.suite.invalid", `images are not made of the Debian release "${name}"`, {
    hint: `--suite is one of ${SUITES.join(", ")}`,
  });
}

async function report(path: string, arch: string, durationMs: number, json: boolean): Promise<void> {
  const { manifest: { assets } } = await readManifest(path);
  const files = assets.releases[assets.current].arches[arch];
  if (json) {
    await print(formatJson({
      ok: true,
      manifest: path,
      asset_version: assets.current,
      arch,
      duration_ms: Math.round(durationMs),
      files,
    }));
    return;
  }
  await print(`Built image ${assets.current} for ${arch} in ${Math.round(durationMs / 1000)} s:`);
  for (const [name, { size }] of Object.entries(files)) {
    await print(`  ${name.padEnd(14)} ${formatBytes(size).padStart(9)}`);
  }
  await print(`Install it with: sbx update --assets --manifest file://${path}`);
}

export const group: CommandGroup = {
  name: "image",
  summary: "build guest images",
  subcommands: [imageBuild],
};
