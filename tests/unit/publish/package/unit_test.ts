/** Units of the package for systemd: how far each is confined. */
import { assert, assertEquals } from "@std/assert";
import { basename, join } from "node:path";
import { sbxDeb } from "../../../../lib/publish/package/mod.ts";
import { runChild } from "../../../helper/child.ts";

/** Exposure that systemd-analyze may find at most in each unit, in tenths. */
const UNITS = { "sbx-assets.service": 40, "sbx-metrics.service": 40, "sbx-service@.service": 75 };

const tool = await runChild("sh", { args: ["-c", "command -v systemd-analyze"] });

const text = "";
const { files, conffiles } = sbxDeb({
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

/** Writes a file of the package into a folder. @returns its path there */
async function written(dir: string, ending: string): Promise<string> {
  const { path, content } = files.find(({ path }) => path.endsWith(ending))!;
  if (!("text" in content)) throw new Error(`${path} is not written as text`);
  const copy = join(dir, basename(path));
  await Deno.writeTextFile(copy, content.text);
  return copy;
}

Deno.test({
  name: "units that run as root are confined, and a user's service as far as newuidmap works in it",
  ignore: !tool.success,
  fn: async () => {
    const dir = await Deno.makeTempDir();
    try {
      for (const [name, threshold] of Object.entries(UNITS)) {
        const path = await written(dir, `/system/${name}`);
        const args = ["security", "--offline=true", "--no-pager", `--threshold=${threshold}`, path];
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

Deno.test("needrestart reads its file, and restarts no user's service", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = await written(dir, "needrestart/conf.d/sbx.conf");
    // As needrestart.conf reads conf.d, beside an entry of its own.
    const script = `our %nrconf = (override_rc => {qr(^dbus) => 0});
eval do { local(@ARGV, $/) = $ARGV[0]; <> }; die $@ if $@;
my @kept = grep { my $service = $_; grep { $service =~ /$_/ && !$nrconf{override_rc}{$_} } keys %{$nrconf{override_rc}} }
  ('dbus.service', 'sbx-service\@ann.service', 'sbx-assets.service', 'ssh.service');
print "@kept";`;
    const { success, stdout, stderr } = await runChild("perl", { args: ["-we", script, path] });
    assert(success, new TextDecoder().decode(stderr));
    assertEquals(new TextDecoder().decode(stdout), "dbus.service sbx-service@ann.service");
    assertEquals(conffiles, ["/etc/needrestart/conf.d/sbx.conf"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
