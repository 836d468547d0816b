/**
 * Images with older C libraries than sbx's own programs: Debian bookworm's, and bullseye's where the mirror
 * has it.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { Registry, succeed, writeImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const ARCHITECTURE = currentArch() === "arm64" ? "arm64" : "amd64";
const SUITES = { bookworm: "2.36", bullseye: "2.31" };
/** glibc gives up a lookup after five seconds, which a guest that is emulated on a busy machine can take. */
const PROGRAM = `set -e
. /etc/os-release; echo "$VERSION_CODENAME"
ldd --version | head -n 1
until getent ahostsv4 ok.test >/dev/null; do sleep 1; done
exec 3<>/dev/tcp/ok.test/80
printf 'GET /old HTTP/1.1\\r\\nHost: ok.test\\r\\nConnection: close\\r\\n\\r\\n' >&3
tail -n 1 <&3`;

/** The first mirror of this machine that has a suite. */
async function mirrorOf(suite: string): Promise<string | undefined> {
  const format = "$(LABEL) $(REPO_URI)";
  const targets = await succeed("apt-get", "indextargets", "--format", format, "Created-By: Packages");
  for (
    const [, mirror] of new Map(targets.matchAll(/^Debian (\S+?)\/?$/gm).map(([line, url]) => [line, url]))
  ) {
    const args = ["-sSfo", "/dev/null", `${mirror}/dists/${suite}/Release`];
    if ((await new Deno.Command("curl", { args, stderr: "null" }).output()).success) return mirror;
  }
}

// Only root can make the owners of a root file system.
Deno.test({
  name: "images of older glibc boot, resolve names and are held to the rules",
  ignore: Deno.uid() !== 0,
  async fn(t) {
    const dir = await Deno.makeTempDir({ prefix: "sbx-glibc-" });
    const world = await TestUpstreams.make(["ok.test"], () => new Response("hello\n"));
    const sbx = await Sbx.make({ spare: false });
    await using registry = await Registry.start();
    try {
      await sbx.ok("start");
      await sbx.api("PATCH", "/settings/edit", {
        "network.upstream_overrides": world.overrides,
        "network.extra_ca_file": world.caFile,
      });
      let tried = 0;
      for (const [suite, version] of Object.entries(SUITES)) {
        const mirror = await mirrorOf(suite);
        if (mirror === undefined) continue;
        tried++;
        await t.step(suite, async () => {
          const tar = join(dir, `${suite}.tar`);
          // The key of an old suite may be over; the image is used here alone.
          const trusted = `deb [trusted=yes] ${mirror} ${suite} main`;
          const late = '--aptopt=Acquire::Check-Valid-Until "false"';
          await succeed("mmdebstrap", "--variant=essential", "--quiet", late, suite, tar, trusted);
          await writeImage(join(dir, suite), {
            layers: [await Deno.readFile(tar)],
            config: { Env: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"] },
            architecture: ARCHITECTURE,
          });
          const reference = await registry.push(join(dir, suite), `${suite}:v1`);
          const [name, libc, ...rest] =
            (await sbx.ok("run", "--image", reference, "--", "bash", "-c", PROGRAM))
              .split("\n");
          assertEquals(name, suite);
          assertStringIncludes(libc, version);
          assertEquals(rest, ["hello", ""]);
        });
      }
      assert(tried > 0, "no mirror of apt has a suite");
      assertEquals(world.received.length, tried);
    } finally {
      await sbx.dispose();
      await world.close();
      await Deno.remove(dir, { recursive: true });
    }
  },
});
