import { readManifest } from "../../lib/asset/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { BUILD_STAGES, buildImage, hostArch, parseArch } from "../../lib/image/mod.ts";
import { loadProfile } from "../../lib/profile/mod.ts";
import { bytes, Progress } from "../../lib/base/progress/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { parseArguments } from "./arguments.ts";
import type { Command } from "./command.ts";

/** `sbx-admin image build`: the guest image of a profile, and its manifest. */
export const imageBuild: Command = {
  name: "image build",
  synopsis: "[--profile <id>] [--arch <arch>] [--version <version>] [--json] <out_dir>",
  summary: "build kernel, initrd, rootfs and OBOM of a profile (code), for an architecture (this machine's)",
  async run(args) {
    const { values, switches, positionals: [out] } = parseArguments(args, {
      values: ["profile", "arch", "version"],
      switches: ["json"],
      positionals: ["<out_dir>"],
    });
    const started = performance.now();
    const arch = parseArch(values.arch ?? hostArch());
    const { packages } = await loadProfile(home(), values.profile ?? "code");
    const path = await interruptible(async (signal) => {
      using progress = new Progress(BUILD_STAGES);
      return await buildImage({
        arch,
        packages,
        out,
        version: values.version,
        binaryVersion: VERSION,
        progress,
        signal,
      });
    });
    await report(path, arch, performance.now() - started, switches.has("json"));
    return 0;
  },
};

/** Runs `work` with a signal that Ctrl-C, SIGTERM and a closed terminal abort, so that it can clean up. */
async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) Deno.addSignalListener(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) Deno.removeSignalListener(signal, abort);
  }
}

async function report(path: string, arch: string, durationMs: number, json: boolean): Promise<void> {
  const { manifest: { assets } } = await readManifest(path);
  const files = assets.releases[assets.current].arches[arch];
  if (json) {
    console.log(JSON.stringify({
      ok: true,
      manifest: path,
      asset_version: assets.current,
      arch,
      duration_ms: Math.round(durationMs),
      files,
    }));
    return;
  }
  console.log(`Built the image ${assets.current} for ${arch} in ${Math.round(durationMs / 1000)} s:`);
  for (const [name, { size }] of Object.entries(files)) {
    console.log(`  ${name.padEnd(14)} ${bytes(size).padStart(9)}`);
  }
  console.log(`Install it with: sbx update --assets --manifest file://${path}`);
}
