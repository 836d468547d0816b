/** Units of the package for systemd: how far each is confined. */
import { assert } from "@std/assert";
import { join } from "node:path";
import { sbxDeb } from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";

/** Units that run as root on their own. */
const UNITS = ["sbx-assets.service", "sbx-metrics.service"];
/** Exposure that systemd-analyze may find at most, in tenths. */
const THRESHOLD = 40;

const tool = await runChild("sh", { args: ["-c", "command -v systemd-analyze"] });

Deno.test({
  name: "units that run as root are confined",
  ignore: !tool.success,
  fn: async () => {
    const text = "";
    const { files } = sbxDeb({
      ...{ version: "1.0.0", arch: "amd64", maintainer: "a <a@example.com>", program: "sbx" },
      vsock: { program: "vsock", builtUsing: "vsock (= 1)" },
      completions: { bash: text, zsh: text, fish: text },
      ...{
        manuals: {},
        notices: text,
        readme: text,
        changelog: text,
        sbom: text,
        sourceDateEpoch: 1_764_000_000,
      },
    });
    const dir = await Deno.makeTempDir();
    try {
      for (const name of UNITS) {
        const { content } = files.find(({ path }) => path.endsWith(`/system/${name}`))!;
        if (!("text" in content)) throw new Error(`${name} is not written as text`);
        const path = join(dir, name);
        await Deno.writeTextFile(path, content.text);
        const args = ["security", "--offline=true", "--no-pager", `--threshold=${THRESHOLD}`, path];
        const { success, stdout, stderr } = await runChild("systemd-analyze", { args });
        const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
        const said = decode(stderr);
        assert(success, decode(stdout).trim().split("\n").at(-1) + said);
        assert(!/Unknown key|Failed to parse|ignoring/i.test(said), said);
      }
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});
