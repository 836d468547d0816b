import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { dirname, join } from "node:path";
import { packageProblems, readAdvisories } from "../../../scripts/release/audit.ts";
import { linesOf } from "../../../scripts/release/coverage.ts";
import { macNotarize, macPreflight, macSign } from "../../../scripts/release/mac.ts";
import { type Options, stagesOf } from "../../../scripts/release/pipeline.ts";
import { preflight } from "../../../scripts/release/preflight.ts";
import { type Command, Runner, shown } from "../../../scripts/release/runner.ts";
import { fromRoot } from "../../helper/repo.ts";

const MAC = {
  application: "Developer ID Application: Example (A1)",
  installer: "Developer ID Installer: Example (A1)",
  profile: "sbx",
};
const OPTIONS: Options = {
  version: "1.2.3",
  commit: "0123456789abcdef0123456789abcdef01234567",
  work: "/work",
  releases: "/releases",
  publish: "/publish",
  source: "git+https://example.com/sbx",
  builder: "https://example.com/ci",
  channel: "stable",
  aptKey: "/keys/archive.key",
  arches: ["x86_64", "arm64"],
  mac: MAC,
};

function dry(): { runner: Runner; said: string[] } {
  const said: string[] = [];
  return { runner: new Runner(true, (line) => said.push(line.trim())), said };
}

Deno.test("the stages of a release are those of the contract, in its order", () => {
  const { runner } = dry();
  const names = [
    "preflight",
    "source",
    "build",
    "test",
    "codesign",
    "notarize",
    "sbom",
    "attest",
    "manifest",
    "publish",
  ];
  assertEquals(stagesOf(OPTIONS, runner).map(({ name }) => name), names);
  const skipped = stagesOf({ ...OPTIONS, mac: undefined }, runner).filter(({ skip }) => skip !== undefined);
  assertEquals(skipped.map(({ name }) => name), ["codesign", "notarize"]);
});

Deno.test("a dry run prints what each stage would run, and runs nothing", async () => {
  const { runner, said } = dry();
  for (const { name, run } of stagesOf(OPTIONS, runner)) if (name !== "preflight") await run();
  const text = said.join("\n");
  for (
    const part of [
      "git clone --quiet --no-local --branch v1.2.3",
      "make --silent deb OUT=/work/packages ARCH=arm64",
      "image build --arch arm64 /work/images",
      "make --silent test",
      "codesign --force --timestamp --options runtime",
      "notarytool submit /work/packages/sbx-1.2.3.pkg",
      "release add /releases 1.2.3 --channel stable --package /work/packages/sbx_1.2.3_amd64.deb --sbom /work/sbx-sbom.spdx.json --binary /usr/bin/sbx=/work/unpacked/x86_64/usr/bin/sbx",
      "--binary /usr/local/bin/sbx=/work/mac/root/usr/local/bin/sbx",
      "release sign /releases",
      "release attest /releases 1.2.3",
      "release publish /releases /publish",
      "release verify /publish --trust /releases/trust.json",
      "--key /keys/archive.key",
    ]
  ) assertStringIncludes(text, part);
  assertEquals(await Deno.stat("/work/source").catch(() => undefined), undefined);
});

Deno.test("a release that was stopped between its signature and its attestations goes on there", async () => {
  const work = await Deno.makeTempDir();
  try {
    for (const name of ["packages/sbx_1.2.3_amd64.deb", "sbx-sbom.spdx.json", "images/manifest.json"]) {
      await Deno.mkdir(dirname(join(work, name)), { recursive: true });
      await Deno.writeTextFile(join(work, name), name);
    }
    let isBroken = true;
    const ran: string[] = [];
    const runner = new class extends Runner {
      override run({ argv }: Command): Promise<void> {
        ran.push(argv.slice(1, 3).join(" "));
        return isBroken && argv.includes("attest") ? Promise.reject(new Error("stopped")) : Promise.resolve();
      }
    }(false, () => {});
    const options = { ...OPTIONS, work, arches: ["x86_64"], mac: undefined };
    const attest = stagesOf(options, runner).find(({ name }) => name === "attest")!;
    await assertRejects(attest.run, Error, "stopped");
    assert(ran.includes("release add") && ran.includes("release sign"));
    isBroken = false;
    ran.length = 0;
    await attest.run();
    assertEquals(ran, ["release attest"]);
    ran.length = 0;
    await Deno.writeTextFile(join(work, "images/manifest.json"), "another image");
    await attest.run();
    assert(ran.includes("release add"));
  } finally {
    await Deno.remove(work, { recursive: true });
  }
});

Deno.test("the installer for macOS is laid out, signed, notarized within 30 minutes, and stapled, in this order", async () => {
  const { runner, said } = dry();
  await macPreflight(runner, MAC);
  const parts = { program: "/p/sbx", library: "/p/libsbxvm.dylib", work: "/w", out: "/o/sbx.pkg" };
  await macSign(runner, { version: "1.2.3", ...parts }, MAC);
  await macNotarize(runner, "/o/sbx.pkg", MAC);
  const order = [
    "find-identity",
    "notarytool history",
    "install -m 0755",
    "codesign --force",
    "codesign --verify",
  ];
  order.push("pkgbuild", "pkgutil", "notarytool submit", "stapler staple", "stapler validate", "spctl");
  const places = order.map((part) => said.findIndex((line) => line.includes(part)));
  assertEquals(places, [...places].sort((a, b) => a - b));
  assert(!places.includes(-1));
  assertStringIncludes(said.join("\n"), "--wait --timeout 30m");
  // The program has the entitlement, and the library that it loads is beside it.
  const signed = said.filter((line) => line.includes("codesign --force"));
  assertEquals(signed.map((line) => line.includes("sbx.entitlements")), [false, true]);
  assertStringIncludes(signed[0], "/usr/local/bin/libsbxvm.dylib");
});

Deno.test("the program for macOS may run virtual machines", async () => {
  const entitlements = await Deno.readTextFile(fromRoot("ffi/SbxVM/sbx.entitlements"));
  assertMatch(entitlements, /<key>com\.apple\.security\.virtualization<\/key><true\/>/);
});

Deno.test("the preflight names everything that is missing, before anything is built", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const keys = join(dir, "keys");
    await Deno.mkdir(keys);
    const { runner } = dry();
    const options = { ...OPTIONS, releases: dir, aptKey: join(dir, "archive.key") };
    const error = await assertRejects(() => preflight(runner, options), Error);
    for (const part of ["hmac.keys is not there", "archive.key is not there", "has no key NAME.pem"]) {
      assertStringIncludes(error.message, part);
    }
    for (const name of ["hmac.keys", "a.pem", "../archive.key"]) {
      await Deno.writeTextFile(join(keys, name), "", { mode: 0o600 });
    }
    await preflight(runner, options);
    await Deno.chmod(join(keys, "a.pem"), 0o644);
    await assertRejects(() => preflight(runner, options), Error, "others can read the key");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("commands are shown as a shell takes them", () => {
  assertEquals(
    shown({ argv: ["a", "b c", "it's", "$x"], cwd: "/d", env: { A: "1 2" } }),
    `cd /d && A='1 2' a 'b c' 'it'\\''s' '$x'`,
  );
});

Deno.test("a command that takes too long is ended, and says so", async () => {
  const runner = new Runner(false, () => {});
  await assertRejects(
    () => runner.read({ argv: ["sleep", "60"], limitMs: 60 }),
    Error,
    "after 0.001 minutes",
  );
  await assertRejects(() => runner.read({ argv: ["false"] }), Error, "exit code 1");
  assertEquals(await runner.read({ argv: ["echo", "a"] }), "a\n");
});

Deno.test("the audit refuses ranges and licences that were not looked at", () => {
  const good = [{ name: "a", version: "1.0.0", license: "MIT" }];
  assertEquals(packageProblems({ a: "npm:a@1.0.0", b: "npm:/b@1.0.0/" }, good), []);
  assertEquals(packageProblems({ a: "npm:a@^1.0.0" }, []), ["npm:a@^1.0.0 has no exact version"]);
  assertEquals(
    packageProblems({}, [{ name: "a", version: "1", license: "AGPL-3.0-only" }, { name: "b", version: "2" }]),
    [
      "a 1 has the licence AGPL-3.0-only",
      "b 2 has the licence none",
    ],
  );
  assertEquals(readAdvisories('{"metadata":{"vulnerabilities":{"high":2}}}'), { high: 2 });
  assertEquals([readAdvisories(""), readAdvisories('{"error":{}}')], [undefined, undefined]);
});

Deno.test("coverage is the part of lines of all files", () => {
  const report =
    "| File | Branch % | Function % | Line % |\n| a.ts | 1.0 | 1.0 | 1.0 |\n| All files | 90.1 | 85.5 | 95.2 |\n";
  assertEquals(linesOf(report), 95.2);
  assertThrows(() => linesOf("nothing"), Error, "no line for all files");
});
