/** A company's own sources in an image: files, keys, packages of Debian and Python, and scripts. */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { currentArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { OwnFiles, placeFiles } from "../../../../lib/publish/image/own/file.ts";
import { installPip, requireLocked } from "../../../../lib/publish/image/own/pip.ts";
import { LASTING_SOURCES, ownSources } from "../../../../lib/publish/image/own/source.ts";
import { FINISH_TREE, NO_CONFLICT } from "../../../../lib/publish/image/rootfs.ts";
import { CONFINED, requireStep, STEPS } from "../../../../lib/publish/image/own/confined.ts";
import { runChild } from "../../../helper/child.ts";
import { CompanySources, WHEEL } from "../../../helper/company_sources.ts";

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");

/** A profile's folder with files, and folders of a build. */
async function world(files: Record<string, string | Uint8Array>) {
  const dir = await Deno.makeTempDir();
  const [folder, work, overlay] = ["profile", "work", "overlay"].map((name) => join(dir, name));
  for (const each of [folder, work, overlay]) await Deno.mkdir(each);
  for (const [name, content] of Object.entries(files)) {
    await Deno.writeFile(
      join(folder, name),
      typeof content === "string" ? new TextEncoder().encode(content) : content,
    );
  }
  const pin = (file: string) => ({ file, sha256: sha256(files[file]) });
  return {
    dir,
    pin,
    overlay,
    places: { work, overlay },
    own: new OwnFiles(folder, join(work, "files")),
    [Symbol.asyncDispose]: () => Deno.remove(dir, { recursive: true }),
  };
}

async function codeOf(work: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(work, SbxError)).code;
}

Deno.test("a profile's files are in the image with their modes, and only with the bytes that it names", async () => {
  await using it = await world({ "corp.conf": "a = 1\n" });
  const pin = it.pin("corp.conf");
  const placed = await placeFiles(
    { files: [{ ...pin, to: "/etc/corp/corp.conf", mode: "0640" }] },
    it.own,
    it.overlay,
  );
  const path = join(it.overlay, "etc/corp/corp.conf");
  assertEquals([await Deno.readTextFile(path), (await Deno.stat(path)).mode! & 0o777], ["a = 1\n", 0o640]);
  assertEquals(placed, [{ name: "/etc/corp/corp.conf", sha256: pin.sha256 }]);
  const changed = await assertRejects(() => it.own.copy({ ...pin, sha256: "0".repeat(64) }), SbxError);
  assertEquals(changed.code, "image.file.changed");
  assert(changed.message.includes(pin.sha256), changed.message);
  assertEquals(await codeOf(() => it.own.copy({ ...pin, file: "none" })), "image.file.missing");
  assertEquals(await codeOf(() => new OwnFiles(undefined, it.dir).copy(pin)), "image.file.missing");
});

Deno.test("a file whose place in the image is a folder's, or below a file, is named", async () => {
  await using it = await world({ a: "a\n" });
  const root = join(it.dir, "root");
  await Deno.mkdir(join(root, "opt/folder"), { recursive: true });
  await Deno.writeTextFile(join(root, "opt/file"), "");
  await Deno.symlink("folder", join(root, "opt/link"));
  for (
    const [to, found] of [
      ["/opt/folder", "/opt/folder"],
      ["/opt/file/a", "/opt/file"],
      ["/opt/link/a", "/opt/link"],
      ["/opt/file", undefined],
      ["/opt/link", undefined],
      ["/opt/folder/a", undefined],
    ]
  ) {
    const overlay = join(it.dir, "overlay-of", to!);
    await placeFiles({ files: [{ ...it.pin("a"), to: to!, mode: "0644" }] }, it.own, overlay);
    const { code } = await runChild("sh", {
      args: ["-euc", NO_CONFLICT],
      env: { root, overlay, work: it.places.work },
    });
    const named = await Deno.readTextFile(join(it.places.work, "conflict")).catch(() => undefined);
    assertEquals([to, code === 0, named?.trim()], [to, found === undefined, found]);
    if (named !== undefined) await Deno.remove(join(it.places.work, "conflict"));
  }
  const [one, two] = ["/opt/a", "/opt/a/b"].map((to) => ({ ...it.pin("a"), to, mode: "0644" }));
  assertEquals(
    await codeOf(() => placeFiles({ files: [one, two] }, it.own, it.overlay)),
    "image.file.conflict",
  );
});

Deno.test("certificates are placed one a file, and a private key beside one is refused", async () => {
  const { stdout } = await runChild("openssl", {
    args: [
      "req",
      "-x509",
      "-newkey",
      "ec",
      "-pkeyopt",
      "ec_paramgen_curve:P-256",
      "-nodes",
      "-subj",
      "/CN=corp",
      "-keyout",
      "-",
    ],
  });
  const both = text(stdout);
  const certificate = both.slice(both.indexOf("-----BEGIN CERTIFICATE"));
  await using it = await world({ "ca.pem": certificate + certificate, "both.pem": both, "none.pem": "x" });
  const place = (file: string) => placeFiles({ certificates: [it.pin(file)] }, it.own, it.overlay);
  await place("ca.pem");
  const names = await Array.fromAsync(Deno.readDir(join(it.overlay, "usr/local/share/ca-certificates")));
  assertEquals(names.map(({ name }) => name).sort(), ["ca-1-1.crt", "ca-1-2.crt"]);
  for (const file of ["both.pem", "none.pem"]) {
    assertEquals(await codeOf(() => place(file)), "image.certificate.invalid");
  }
});

Deno.test("a repository's key and a company's packages become sources of apt, and a wrong one is refused", async () => {
  await using company = await CompanySources.make();
  const deb = await Deno.readFile(await company.deb("corp-local"));
  const key = await company.aptRepository("apt", await company.deb("corp-remote"));
  await using it = await world({
    "corp.asc": key,
    "corp.deb": deb,
    "cut.deb": deb.subarray(0, deb.length - 40),
  });
  const source = {
    uri: `${company.url}/apt`,
    suite: "stable",
    components: ["main"],
    signed_by: it.pin("corp.asc"),
  };
  const made = await ownSources(
    { apt_source: [source], deb: [it.pin("corp.deb")] },
    "x86_64",
    it.own,
    it.places,
  );
  const work = it.places.work;
  assertEquals(made.sources, [
    `deb [arch=amd64 signed-by=${work}/sbx-source-1.asc] ${company.url}/apt stable main`,
    `deb [arch=amd64 trusted=yes] copy:${work}/archive ./`,
  ]);
  assertEquals([made.names, made.packages.map(({ name }) => name)], [["corp-local=1.0"], ["corp-local"]]);
  // The image's own apt has the key, and not the folder of the build.
  const root = join(it.dir, "root");
  await Deno.mkdir(join(root, "etc/apt"), { recursive: true });
  await Deno.writeTextFile(join(root, "etc/apt/sources.list"), made.sources.join("\n") + "\n");
  await runChild("sh", { args: ["-euc", `root=$1\n${LASTING_SOURCES}`, "sh", root] });
  assertEquals(
    await Deno.readTextFile(join(root, "etc/apt/sources.list")),
    `deb [arch=amd64 signed-by=/usr/share/keyrings/sbx-source-1.asc] ${company.url}/apt stable main\n`,
  );
  assertEquals(await Deno.readTextFile(join(it.overlay, "usr/share/keyrings/sbx-source-1.asc")), key);
  const bad = (more: Parameters<typeof ownSources>[0]) =>
    codeOf(() => ownSources(more, "x86_64", it.own, it.places));
  assertEquals(
    await bad({ apt_source: [{ ...source, signed_by: it.pin("corp.deb") }] }),
    "image.key.invalid",
  );
  await Deno.remove(join(work, "archive"), { recursive: true });
  assertEquals(await bad({ deb: [it.pin("cut.deb")] }), "image.deb.invalid");
});

Deno.test("pip installs a lock's wheels, with their programs, and refuses another hash", async () => {
  await using company = await CompanySources.make();
  const wheel = sha256(await Deno.readFile(join(company.dir, "www/simple/corp-greet", WHEEL)));
  const lock = (hash: string) => `# of the company\ncorp-greet==1.2.0 \\\n    --hash=sha256:${hash}\n`;
  await using it = await world({ "good.txt": lock(wheel), "bad.txt": lock("0".repeat(64)) });
  const install = (file: string) =>
    installPip(
      { suite: "trixie", pip: { lock: it.pin(file), index: `${company.url}/simple` } },
      currentArch(),
      it.own,
      it.places,
    );
  const mismatch = await assertRejects(() => install("bad.txt"), SbxError, "HASH");
  assertEquals(mismatch.code, "image.tool_failed");
  assertEquals(await install("good.txt"), [{
    kind: "pip",
    name: "corp-greet",
    version: "1.2.0",
    hash: `sha256:${wheel}`,
    license: "Company Internal",
  }]);
  const library = join(it.overlay, "usr/local/lib/python3.13/dist-packages");
  const { stdout } = await runChild("python3", {
    args: [join(it.overlay, "usr/local/bin/corp-greet")],
    env: { PYTHONPATH: library },
  });
  assertEquals(text(stdout), "greetings from the company\n");
  const [head] = (await Deno.readTextFile(join(it.overlay, "usr/local/bin/corp-greet"))).split("\n");
  assertEquals(head, "#!/usr/bin/python3");
});

Deno.test("a lock of Python has exact versions with hashes, and nothing that pip would build or fetch by itself", () => {
  const hash = `--hash=sha256:${"a".repeat(64)}`;
  requireLocked(
    `a==1.0 ${hash} ${hash}\n\n# x\nb[c,d]==2.0.post1 ; python_version < "4" \\\n  ${hash}  # via a\n`,
    "f",
  );
  for (
    const line of [
      "a==1.0",
      `a>=1.0 ${hash}`,
      `a==1.* ${hash}`,
      `./a.tar.gz ${hash}`,
      `a @ https://x.example/a.tar.gz ${hash}`,
      `https://x.example/a.tar.gz ${hash}`,
      "-r other.txt",
      "--index-url https://x.example",
      "--no-binary :all:",
      `a==1.0 --config-settings=x=y ${hash}`,
      `a==1.0 --global-option=x ${hash}`,
      `-e . ${hash}`,
      `a==1.0 ; python_version > "3" --global-option=build ${hash}`,
      `a==1.0 ; python_version > "${"${OPTION}"}" ${hash}`,
      `a==1.0 ; python_version > "3"\u2028--no-binary=:all: ${hash}`,
    ]
  ) assertEquals(assertThrows(() => requireLocked(line, "f"), SbxError).code, "image.pip.lock", line);
});

Deno.test("pip reads nothing of a lock that sbx took for a comment", async () => {
  // pip continues no comment, and ends lines where Python does.
  const hidden = ["# a \\\n--no-such-option", "# b\f--no-such-option", "# c\x85--no-such-option"];
  await using company = await CompanySources.make();
  const wheel = sha256(await Deno.readFile(join(company.dir, "www/simple/corp-greet", WHEEL)));
  await using it = await world({
    "lock.txt": `${hidden.join("\n")}\ncorp-greet==1.2.0 --hash=sha256:${wheel}\n`,
  });
  const pip = { lock: it.pin("lock.txt"), index: `${company.url}/simple` };
  const made = await installPip({ suite: "trixie", pip }, currentArch(), it.own, it.places);
  assertEquals(made.map(({ name }) => name), ["corp-greet"]);
});

/** A tree with some programs of this machine, in which a step runs as in an image's. Root only. */
const TREE = `set -eu
work=$1 tree=$1/tree
mkdir -p "$tree"; for name in proc dev run tmp etc sys usr/bin usr/lib; do mkdir -p "$tree/$name"; done
for link in bin sbin lib lib64; do [ ! -L "/$link" ] || cp -P "/$link" "$tree"; done
mkdir -p "$tree/usr/sbin" "$tree/usr/lib64"
for name in sh env setpriv id stat mknod mount unshare chroot readlink tail cut grep chown ls sleep seq cat; do
  program=$(command -v $name); cp -L "$program" "$tree/usr/bin/$name"
  ldd "$program" | grep -o '/[^ ]*' | while read -r file; do mkdir -p "$tree$(dirname "$file")"; cp -L "$file" "$tree$file"; done
done
`;

async function inTree(work: string, script: string): Promise<{ code: number; log: string }> {
  await Deno.writeTextFile(join(work, "confined.sh"), CONFINED);
  await Deno.writeTextFile(join(work, "script"), script, { mode: 0o755 });
  const { code } = await runChild("unshare", {
    args: [
      "--mount",
      "sh",
      "-c",
      `${TREE}${STEPS}exec 7</etc/shadow\nconfined script "$tree" "$work/script"`,
      "sh",
      work,
    ],
    env: { SUDO_UID: "" },
  });
  return { code, log: await Deno.readTextFile(join(work, "script.log")).catch(() => "") };
}

const isRoot = Deno.build.os === "linux" && Deno.uid() === 0;

Deno.test({
  name:
    "a script of a build is root of its tree alone: no network, devices, mounts, processes or files of the machine",
  ignore: !isRoot,
  async fn() {
    const work = await Deno.makeTempDir();
    const { code, log } = await inTree(
      work,
      `#!/bin/sh
id -u
echo own >/etc/made; chown 12:34 /etc/made; stat -c %u:%g /etc/made
mknod /etc/disk b 8 0 2>/dev/null && echo mknod
mount -t tmpfs x /tmp 2>/dev/null && echo mount
unshare --user true 2>/dev/null && echo namespace
chroot / true 2>/dev/null && echo chroot
echo x 2>/dev/null >/proc/sys/kernel/hostname && echo sysctl
[ -e /proc/sysrq-trigger ] && echo b 2>/dev/null >/proc/sysrq-trigger && echo sysrq
[ -z "$(ls /sys)" ] || echo sys
kill -0 ${Deno.pid} 2>/dev/null && echo process
readlink /proc/self/fd/7 && echo descriptor
[ ! -e /dev/tty ] || echo terminal
echo devices: $(tail -n +3 /proc/self/net/dev | cut -d: -f1)
echo caps: $(grep CapBnd /proc/self/status | cut -f2)
exit 0
`,
    );
    assertEquals([code, log.split("\n").slice(0, 2)], [0, ["0", "12:34"]]);
    assertEquals(log.split("\n").slice(2, 4).map((line) => line.trim()), [
      "devices: lo",
      "caps: 00000000000000fb",
    ]);
    assertEquals(await Deno.readTextFile(join(work, "tree/etc/made")), "own\n");
    await Deno.remove(work, { recursive: true });
  },
});

Deno.test({
  name: "a script that fails says so with its status and the end of its output, and its programs end with it",
  ignore: !isRoot,
  async fn() {
    const work = await Deno.makeTempDir();
    const { code } = await inTree(
      work,
      `#!/bin/sh
sleep 8317 &
seq 1 100
printf 'no license server \\033[31m\\n' >&2
exit 3
`,
    );
    assertEquals(code, 1);
    const error = await assertRejects(
      () => requireStep(work, "script", "the script setup.sh", "h"),
      SbxError,
    );
    assertEquals(error.code, "image.step.failed");
    assertMatch(error.message, /^the script setup\.sh exited with 3; the end of its output:\n90\n/);
    assert(error.message.includes("no license server"), error.message);
    assert(!error.message.includes("\x1b"), error.message);
    const left = await Array.fromAsync(Deno.readDir("/proc")).then((entries) =>
      entries.filter(({ name }) => /^\d+$/.test(name)).map(({ name }) => {
        try {
          return Deno.readTextFileSync(`/proc/${name}/cmdline`);
        } catch {
          return "";
        }
      }).filter((line) => line.includes("8317"))
    );
    assertEquals(left, []);
    await Deno.remove(work, { recursive: true });
  },
});

Deno.test({
  name: "programs and .pth files of packages are not run when a tree is finished",
  ignore: !isRoot,
  async fn() {
    const work = await Deno.makeTempDir();
    const finish = `root=$tree
mkdir -p "$root/usr/local/bin" "$root/usr/local/share/ca-certificates"
place() { printf '#!/bin/sh\\n%s\\n' "$2" >"$root/$1"; chmod 0755 "$root/$1"; }
for name in update-ca-certificates python3 env cat; do place "usr/local/bin/$name" "echo $name >>/caught"; done
place usr/sbin/update-ca-certificates 'cat /usr/sbin/update-ca-certificates >/read; echo certificates >>/asked'
place usr/bin/python3 'echo "python $*" >>/asked'
export PATH=/usr/local/bin:$PATH
`;
    const { code, stderr } = await runChild("sh", {
      args: ["-c", `${TREE}${finish}${FINISH_TREE}`, "sh", work],
    });
    assertEquals([code, text(stderr)], [0, ""]);
    assertEquals(
      [
        await Deno.readTextFile(join(work, "tree/asked")),
        await Deno.stat(join(work, "tree/caught")).then(() => true, () => false),
      ],
      // Neither the folder, variables nor packages add modules.
      ["certificates\npython -I -S -B -\n", false],
    );
    await Deno.remove(work, { recursive: true });
  },
});
