/**
 * A root file system without a C library, a shell of its own making, Perl, nft or an account, that has
 * everything in it which could stand in for a program of sbx: a VM boots it cold and from memory,
 * governed and recorded as any other.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { COMMANDS_PATH, LAYER_PATH } from "../../lib/machine/guest/wire/mod.ts";
import { resolveAssets } from "../../lib/release/asset/mod.ts";
import { succeed, writeImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";
import type { TarFile } from "../helper/tar.ts";
import { TestUpstreams } from "../helper/upstream.ts";

/** Program of the hostile image in place of one of sbx's. */
const INSTEAD = "#!/bin/busybox sh\necho instead >>/instead\n";
const REPLACED = [
  ...["bin/deno", "bin/nft", "bin/perl", "bin/sh", "sbx-keeper", "sbx-pty-agent.js", "commands/sbx-doctor"]
    .map(
      (name) => `${LAYER_PATH.slice(1)}/${name}`,
    ),
  ...[
    "usr/bin/sbx-doctor",
    "usr/bin/deno",
    "usr/bin/perl",
    "usr/sbin/nft",
    "bin/nft",
    "bin/perl",
    "sbin/mkfs.ext4",
  ],
];

const TRIPLET = currentArch() === "arm64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
/**
 * Files that a program of sbx might open. Each is a pipe without a writer, which the program would wait for.
 */
const PIPES = [
  ...["etc/ld.so.cache", "usr/lib/ssl/openssl.cnf", "deno.json", "package.json", "usr/lib/package.json"],
  ...["libc.so.6", "libcrypto.so.3", "libgcc_s.so.1", "libnss_files.so.2", "libz.so.1"].flatMap((name) => [
    `usr/lib/${name}`,
    `usr/lib/${TRIPLET}/${name}`,
  ]),
  ...["Config.pm", "strict.pm"].map((name) => `usr/lib/${TRIPLET}/perl-base/${name}`),
  ...["etc/sbx/ca.pem", "etc/ssl/cert.pem", "usr/local/share/ca-certificates/sbx.crt", "etc/hosts"],
  "root/.npmrc",
];

async function writeHostileImage(dir: string, busybox: Uint8Array): Promise<void> {
  const files: TarFile[] = [
    { name: "bin/busybox", content: busybox, mode: 0o755 },
    ...["sh", "cat", "ls", "wget", "id", "mount", "nslookup"].map((name): TarFile => ({
      name: `bin/${name}`,
      type: "2",
      link: "/bin/busybox",
    })),
    ...REPLACED.map((name) => ({ name, content: INSTEAD, mode: 0o755 })),
    ...PIPES.map((name) => ({ name, type: "6" })),
    { name: "etc/ld.so.preload", content: "/lib/preload.so\n" },
    { name: "etc/nsswitch.conf", content: "passwd: hostile\n" },
    { name: "etc/resolv.conf", type: "2", link: "/etc/elsewhere" },
    { name: "workspace", type: "2", link: "/etc" },
  ];
  const architecture = currentArch() === "arm64" ? "arm64" : "amd64";
  await writeImage(dir, { layers: [files], architecture, config: { Env: ["PATH=/bin"] } });
}

/** busybox of the layer, which is static. */
async function busyboxOf(layer: string, dir: string): Promise<Uint8Array> {
  await succeed("fsck.erofs", `--extract=${dir}`, layer);
  return await Deno.readFile(join(dir, "bin/busybox"));
}

Deno.test("a foreign, hostile root file system boots, and replaces nothing of sbx", async (t) => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-foreign-" });
  const sbx = await Sbx.make({ spare: false });
  const upstreams = await TestUpstreams.make(
    ["site.example", "other.example"],
    () => new Response("an answer\n"),
  );
  try {
    const { layer } = await resolveAssets(home({ get: (name) => sbx.env[name] }), currentArch());
    await writeHostileImage(join(dir, "image"), await busyboxOf(layer!.path, join(dir, "layer")));
    const image = `oci:${join(dir, "image")}:v1`;
    await Deno.mkdir(join(sbx.home, "profiles/foreign"), { recursive: true });
    await Deno.writeTextFile(
      join(sbx.home, "profiles/foreign/profile.toml"),
      `id = "foreign"\nname = "Foreign"\ndescription = ""\nrevision = "1.0.0"\n[image]\nfrom = "${image}"\n` +
        `[profiles.rules.no-other]\naction = "block"\nmatch = 'http.request.host == "other.example"'\nreason = "not there"\n`,
    );
    await sbx.ok("start");
    await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": upstreams.overrides,
      "network.extra_ca_file": upstreams.caFile,
    });
    await sbx.ok("image", "pull", image);

    for (const start of ["cold", "from a template"]) {
      const name = start === "cold" ? "cold" : "copy";
      await t.step(
        `${start}: its programs run, its network follows the rules, and both are recorded`,
        async () => {
          if (start !== "cold") await sbx.ok("template", "make", "foreign");
          await sbx.ok("create", name, "--profile", "foreign");
          assertStringIncludes(await sbx.ok("info", name), start);
          const sh = (line: string) => sbx.cli("exec", name, "--", "sh", "-c", line);
          assertEquals(
            (await sh("id -u; echo $PATH; cat /etc/resolv.conf | grep -c 192.0.2.53")).stdout,
            `0\n${COMMANDS_PATH}:/bin\n1\n`,
          );
          assertEquals((await sh("wget -q -O - http://site.example/a")).stdout, "an answer\n");
          assertEquals((await sh("wget -q -O - http://other.example/b")).code, 1);
          const events = JSON.parse(await sbx.ok("events", name, "--json")).events;
          const exec = events.filter(({ common }: { common: { event_type: string } }) =>
            common.event_type === "process.exec"
          );
          assert(
            JSON.stringify(exec).includes("wget -q -O - http://site.example/a"),
            "its programs are recorded",
          );
          const refused = JSON.parse(await sbx.ok("events", name, "--denied", "--json")).events;
          const [http] = refused.filter((event: { http?: unknown }) => event.http);
          assertEquals(http.http.request.host, "other.example");
          assertMatch(await sbx.ok("why", http.common.event_id), /not there/);
        },
      );
      await t.step(
        `${start}: nothing of it ran in place of a program of sbx, and no library of it was loaded`,
        async () => {
          const programs = await sbx.cli(
            "exec",
            name,
            "--",
            "/bin/busybox",
            "sh",
            "-c",
            [
              "ls /instead 2>&1",
              `for p in nft perl deno sshd; do ${LAYER_PATH}/bin/$p --version 2>&1 | grep -i preload; done`,
              `/bin/busybox grep -c erofs /proc/mounts`,
            ].join("; "),
          );
          assertStringIncludes(programs.stdout, "/instead: No such file");
          assert(!/preload/i.test(programs.stdout), programs.stdout);
          assert(
            !/preload/i.test(await sbx.ok("logs", name)),
            "the console has no word of the loader either",
          );
          // It asks OpenSSL, whose configuration may name libraries. Without a client it ends.
          const sshd = ["sbx-sshd", "ssh-ed25519 AAAA"];
          assertStringIncludes(
            (await sbx.cli("exec", name, "--timeout", "60", "--", ...sshd)).stdout,
            "SSH-2.0-OpenSSH",
          );
          await sbx.ok("exec", name, "--", "sh", "-c", "/bin/busybox rm /root/.npmrc");
          const doctor = await sbx.cli("doctor", name);
          for (const check of ["network proxy", "DNS", "activity"]) {
            assertMatch(doctor.stdout, new RegExp(`✓ ${check}`));
          }
          // A shell that it lacks is sbx's own.
          assertEquals(
            (await sbx.cli("exec", name, "-c", "ls /workspace >/dev/null && echo a line")).stdout,
            "a line\n",
          );
        },
      );
    }
    await t.step("a link in place of a folder that leads to the layer is refused", async () => {
      const folders: TarFile[] = [{ name: "opt/" }, { name: "usr/" }, {
        name: "usr/lib",
        type: "2",
        link: "/opt",
      }];
      const architecture = currentArch() === "arm64" ? "arm64" : "amd64";
      await writeImage(join(dir, "linked"), { layers: [folders], architecture });
      assertEquals((await sbx.cli("create", "linked", "--image", `oci:${join(dir, "linked")}:v1`)).code, 1);
      assertStringIncludes(await sbx.ok("logs", "linked"), "has a link in place of /usr/lib");
    });
  } finally {
    await sbx.dispose();
    await upstreams.close();
    await Deno.remove(dir, { recursive: true });
  }
});
