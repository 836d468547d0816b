/**
 * A VM of another architecture: the whole guest, on a processor that is emulated instruction by instruction.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { generateManifest, installAssets, readManifest } from "../../lib/release/asset/mod.ts";
import { ARCHES, currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { VERSION } from "../../lib/base/version/mod.ts";
import { doctorSteps } from "../e2e/doctor_steps.ts";
import { snapshotSteps } from "../e2e/snapshot_steps.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually, Sbx } from "../helper/sbx.ts";
import { TestUpstreams } from "../helper/upstream.ts";

const PROFILE = `
id = "arm"
name = "Arm"
description = ""
revision = "1.0.0"

[profiles.rules.no-site]
action = "block"
match = 'http.request.host == "blocked.example"'
reason = "not there"

[profiles.rules.no-tac]
action = "block"
match = 'process.activity.executable == "tac"'
reason = "not backwards"
`;

Deno.test("a VM of arm64 is governed as one of this machine's architecture", async (t) => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-" });
  const assets = await installBoth(dir);
  const world = await TestUpstreams.make(
    ["site.example", "blocked.example"],
    () => new Response("upstream\n"),
  );
  const sbx = await Sbx.make({ assets, home: dir });
  try {
    await Deno.mkdir(join(dir, "profiles/arm"), { recursive: true });
    await Deno.writeTextFile(join(dir, "profiles/arm/profile.toml"), PROFILE);
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": world.overrides,
      "network.extra_ca_file": world.caFile,
    });

    await t.step("sbx run --arch arm64 runs a program of it", async () => {
      assertEquals(await sbx.ok("run", "--arch", "arm64", "--", "uname", "-m"), "aarch64\n");
    });

    await t.step("it says what it is, and has its programs", async () => {
      await sbx.ok("create", "dev", "--arch", "arm64", "--profile", "arm");
      const { arch, accelerator } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      assertEquals([arch, accelerator], ["arm64", "tcg"]);
      const line = "node -p process.arch; python3 -c 'import platform; print(platform.machine())'; " +
        "deno eval 'console.log(Deno.build.arch)'; nproc";
      assertEquals(await sbx.ok("exec", "dev", "-c", line), "arm64\naarch64\naarch64\n2\n");
    });

    await t.step("requests and programs meet the rules, and are recorded", async () => {
      const curl = (host: string) => `curl -sS -o /dev/null -w '%{http_code} ' https://${host}/`;
      assertEquals(
        await sbx.ok("exec", "dev", "-c", `${curl("site.example")}; ${curl("blocked.example")}`),
        "200 403 ",
      );
      const { code, stderr } = await sbx.cli("exec", "dev", "--", "sh", "-c", "sh -c 'tac /etc/hostname'");
      assert(code !== 0);
      assertStringIncludes(stderr, "Operation not permitted");
      await eventually("the tree has them", async () => {
        const tree = await sbx.ok("tree", "dev");
        return tree.includes("curl") && tree.includes("block no-tac");
      });
    });

    await doctorSteps(t, sbx);
    await snapshotSteps(t, sbx);

    await t.step("another one starts from its template, with a disk of its own", async () => {
      await sbx.ok("exec", "dev", "-c", "echo mine >/root/mine");
      await sbx.ok("template", "make", "arm", "--arch", "arm64");
      await sbx.ok("create", "other", "--arch", "arm64", "--profile", "arm");
      assertEquals(JSON.parse(await sbx.ok("info", "other", "--json")).started_by, "template");
      assertEquals(await sbx.ok("exec", "other", "-c", "uname -m; ls /root"), "aarch64\n");
    });

    await t.step("it keeps its architecture when it starts again, and so does a copy", async () => {
      await sbx.ok("stop", "dev");
      const refused = await sbx.cli("create", "copy", "--from", "dev", "--arch", "x86_64");
      assertEquals(refused.code, 1);
      assertStringIncludes(refused.stderr, '"dev" has a disk for arm64');
      await sbx.ok("create", "copy", "--from", "dev");
      await sbx.ok("start", "dev");
      for (const name of ["dev", "copy"]) {
        assertEquals(await sbx.ok("exec", name, "-c", "uname -m; cat /root/mine"), "aarch64\nmine\n");
      }
    });

    await t.step("VMs of this machine's architecture are still there", async () => {
      assertEquals(await sbx.ok("run", "--", "uname", "-m"), `${Deno.build.arch}\n`);
    });

    await t.step("the record of all that verifies", async () => {
      await sbx.ok("stop", "dev");
      await sbx.ok("verify", "dev");
    });
  } finally {
    await sbx.dispose();
    await world.close();
  }
});

/**
 * Installs the images of both architectures, as one manifest describes them.
 * @returns the folder of assets
 */
async function installBoth(dir: string): Promise<string> {
  const [out, assets] = [join(dir, "out"), join(dir, "assets")];
  await Deno.mkdir(out);
  const own = currentArch();
  await Deno.symlink(fromRoot(`.cache/image/${own}`), join(out, own));
  if (own !== "arm64") await Deno.symlink(fromRoot(".cache/image-arm64/arm64"), join(out, "arm64"));
  const { manifest: { assets: { current, releases } } } = await readManifest(
    fromRoot(".cache/image/manifest.json"),
  );
  const path = await generateManifest(out, { binaryVersion: VERSION, image: releases[current].image });
  const place = home({
    get: (name) => name === "SBX_HOME" ? dir : name === "SBX_ASSETS_DIR" ? assets : undefined,
  });
  for (const arch of ARCHES) await installAssets({ manifestUrl: `file://${path}`, home: place, arch });
  return assets;
}
