import { currentArch } from "../../../../lib/base/arch/mod.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { LAYER_PATH } from "../../../../lib/machine/guest/wire/mod.ts";
import { MODPROBE } from "../../../../lib/publish/image/network.ts";
import { INIT } from "../../../../lib/publish/image/init.ts";
import { buildInitrd, encodeCpio } from "../../../../lib/publish/image/initrd.ts";
import { isAptPackage } from "../../../../lib/config/profile/mod.ts";
import { buildImage, bundleGuestPrograms } from "../../../../lib/publish/image/mod.ts";
import { ModuleTree, stripSignature, unpackKernel } from "../../../../lib/publish/image/module.ts";
import { requireSpace } from "../../../../lib/publish/image/build.ts";
import { requireTools } from "../../../../lib/publish/image/command.ts";
import { limitChild } from "../../../helper/child.ts";

const text = (value: string) => new TextEncoder().encode(value);

/** Parses a newc archive by the specification of the format, independently of our encoder. */
function readCpio(bytes: Uint8Array): { name: string; mode: number; data: string }[] {
  const decode = (at: number, length: number) => new TextDecoder().decode(bytes.subarray(at, at + length));
  const entries = [];
  for (let at = 0;;) {
    assertEquals([decode(at, 6), at % 4], ["070701", 0]);
    const field = (n: number) => parseInt(decode(at + 6 + n * 8, 8), 16);
    const [mode, size, nameSize] = [field(1), field(6), field(11)];
    const name = decode(at + 110, nameSize - 1);
    at = Math.ceil((at + 110 + nameSize) / 4) * 4;
    if (name === "TRAILER!!!") return entries;
    entries.push({ name, mode, data: decode(at, size) });
    at = Math.ceil((at + size) / 4) * 4;
  }
}

Deno.test("a cpio archive holds its entries in order, padded to four bytes", () => {
  const archive = encodeCpio([
    { path: "dev", kind: "directory" },
    { path: "dev/console", kind: "character", major: 5, minor: 1 },
    { path: "a", kind: "file", data: text("1") },
    { path: "init", kind: "file", data: text("12345"), mode: 0o755 },
  ]);
  assertEquals(readCpio(archive), [
    { name: "dev", mode: 0o040755, data: "" },
    { name: "dev/console", mode: 0o020600, data: "" },
    { name: "a", mode: 0o100644, data: "1" },
    { name: "init", mode: 0o100755, data: "12345" },
  ]);
});

/** Creates a `/lib/modules/<version>` whose modules name their dependencies as a kernel's do. */
async function moduleTree(modules: Record<string, string>, builtin: string[] = []): Promise<ModuleTree> {
  const dir = join(await Deno.makeTempDir(), "6.1.0-test");
  await Deno.mkdir(join(dir, "kernel/net"), { recursive: true });
  await Deno.writeTextFile(
    join(dir, "modules.builtin"),
    builtin.map((name) => `kernel/${name}.ko\n`).join(""),
  );
  for (const [name, depends] of Object.entries(modules)) {
    const bytes = text(`\x7fELF\0license=GPL\0depends=${depends}\0name=${name}\0`);
    await Deno.writeFile(join(dir, "kernel/net", `${name}.ko`), bytes);
  }
  return await ModuleTree.open(dir);
}

Deno.test("modules come after their dependencies, without built-in ones", async () => {
  const tree = await moduleTree({ a: "b,c-d", b: "c-d,built", "c-d": "", unused: "" }, ["fs/built"]);
  const order = await tree.loadOrder(["a", "built", "b"]);
  assertEquals(order.map(({ name, path }) => [name, path]), [
    ["c_d", "kernel/net/c-d.ko"],
    ["b", "kernel/net/b.ko"],
    ["a", "kernel/net/a.ko"],
  ]);
  assertEquals(tree.version, "6.1.0-test");
  await assertRejects(() => tree.loadOrder(["a", "none"]), SbxError, "has no module none");
});

Deno.test("a module knows the names by which the kernel asks for it, and modules are found by folder", async () => {
  const tree = await moduleTree({ "nft_masq": "\0alias=nft-expr-2-masq\0alias=ipt_MASQUERADE", "a-b": "" });
  const [masq] = await tree.loadOrder(["nft_masq"]);
  assertEquals(masq.aliases, ["nft_expr_2_masq", "ipt_MASQUERADE"]);
  assertEquals(tree.inFolders(["kernel/net"]), ["a_b", "nft_masq"]);
  assertEquals(tree.inFolders(["kernel/ne", "kernel/fs"]), []);
});

Deno.test("the kernel gets the modules it asks for in order, and rules before ends of containers", async () => {
  const dir = await Deno.makeTempDir();
  const layer = join(dir, "layer");
  await Deno.mkdir(join(layer, "kernel/for"), { recursive: true });
  await Deno.mkdir(join(layer, "bin"));
  await Deno.writeTextFile(join(layer, "bin/nft"), `#!/bin/sh\necho nft "$*" >>${dir}/log\n`, {
    mode: 0o755,
  });
  await Deno.writeTextFile(join(layer, "kernel/for/rtnl_link_bridge"), "llc bridge br_netfilter\n");
  const script = `insmod() { echo insmod "$*" >>${dir}/log; }\n` +
    MODPROBE.replaceAll(LAYER_PATH, layer).replace("/sys/module", dir);
  await Deno.writeTextFile(join(dir, "modprobe"), script);
  const ask = async (name: string) =>
    await new Deno.Command("busybox", {
      args: ["sh", join(dir, "modprobe"), "-q", "--", name],
      stderr: "null",
    }).output();
  assertEquals((await ask("rtnl-link-bridge")).code, 0);
  for (const name of ["../../etc/passwd", "net-pf-99", "", "a b"]) {
    assertEquals((await ask(name)).code, 1, name);
  }
  const log = (await Deno.readTextFile(join(dir, "log"))).replaceAll(layer, LAYER_PATH).trim().split("\n");
  assertEquals(log, [
    `insmod ${LAYER_PATH}/kernel/llc.ko`,
    `nft -f ${LAYER_PATH}/forward.nft`,
    `insmod ${LAYER_PATH}/kernel/bridge.ko`,
    `insmod ${LAYER_PATH}/kernel/br_netfilter.ko`,
  ]);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("packed modules, as trixie's are, are unpacked and lose the suffix", async () => {
  const tree = await moduleTree({ a: "b", b: "" });
  const [plain] = await tree.loadOrder(["b"]);
  const { success } = await new Deno.Command("xz", { args: [join(tree.dir, plain.path)] }).output();
  assert(success);
  const order = await (await ModuleTree.open(tree.dir)).loadOrder(["a"]);
  assertEquals(order.map(({ path }) => path), ["kernel/net/b.ko", "kernel/net/a.ko"]);
  assertEquals(order[0].bytes, plain.bytes);
});

Deno.test("an initrd has busybox, /init, the nodes its shell opens, and modules in the groups of init.ts", async () => {
  const tree = await moduleTree({
    virtio: "",
    virtio_pci_modern_dev: "",
    virtio_pci: "virtio,virtio_pci_modern_dev",
    virtio_blk: "virtio",
    erofs: "",
    overlay: "",
    vsock: "",
    vmw_vsock_virtio_transport: "vsock,virtio",
    virtiofs: "fuse",
    fuse: "",
    virtio_console: "",
    binfmt_misc: "",
  });
  const entries = readCpio(await buildInitrd(text("busybox"), tree));
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  assertEquals(byName.get("init"), { name: "init", mode: 0o100755, data: INIT });
  assertEquals(byName.get("bin/busybox")?.mode, 0o100755);
  // The kernel's own default would be run dozens of times before init.
  assertEquals([byName.get("modprobe")?.data, byName.has("sbin/modprobe")], [MODPROBE, false]);
  assert(INIT.includes("\necho /modprobe >./proc/sys/kernel/modprobe\n"));
  for (const node of ["dev/console", "dev/null"]) assert(byName.has(node), node);
  // Every top-level mount point of /init must exist.
  for (const [, folder] of INIT.matchAll(/^\$b mount -t \S+ (?:-o \S+ )?\S+ \/(\w+)(?: |$)/gm)) {
    assert(byName.has(folder), folder);
  }
  assertEquals(entries.map(({ name }) => name).filter((name) => name.endsWith(".ko")), [
    "modules/100-virtio.ko",
    "modules/101-virtio_pci_modern_dev.ko",
    "modules/102-virtio_pci.ko",
    "modules/103-virtio_blk.ko",
    "modules/104-erofs.ko",
    "modules/105-overlay.ko",
    "modules/200-vsock.ko",
    "modules/201-vmw_vsock_virtio_transport.ko",
    "modules/202-fuse.ko",
    "modules/203-virtiofs.ko",
    "modules/300-virtio_console.ko",
    "modules/400-binfmt_misc.ko",
  ]);
});

Deno.test("a module loses its signature and nothing else", () => {
  const code = text("\x7fELF code");
  const signature = text("s".repeat(300));
  const info = new Uint8Array(12);
  new DataView(info.buffer).setUint32(8, signature.length);
  const magic = text("~Module signature appended~\n");
  const signed = Uint8Array.from([...code, ...signature, ...info, ...magic]);
  assertEquals(stripSignature(signed), code);
  assertEquals(stripSignature(code), code);
  assertEquals(stripSignature(magic), magic);
});

/** Wraps a payload in a bzImage (boot protocol). */
function bzImage(payload: Uint8Array): Uint8Array {
  const setupSectors = 3, offset = 64;
  const start = (setupSectors + 1) * 512 + offset;
  const image = new Uint8Array(start + payload.length + 100);
  image[0x1f1] = setupSectors;
  image.set(text("HdrS"), 0x202);
  const view = new DataView(image.buffer);
  view.setUint32(0x248, offset, true);
  view.setUint32(0x24c, payload.length, true);
  image.set(payload, start);
  return image;
}

async function piped(command: string, args: string[], input: Uint8Array): Promise<Uint8Array> {
  const child = limitChild(new Deno.Command(command, { args, stdin: "piped", stdout: "piped" }).spawn());
  const writer = child.stdin.getWriter();
  await writer.write(input);
  await writer.close();
  return (await child.output()).stdout;
}

const KERNEL = text("\x7fELF" + "kernel".repeat(1000));
const SIZE_AFTER = [0x74, 0x17, 0, 0];

Deno.test("a kernel is unpacked from a bzImage of any compression", async () => {
  const packed: [string, Uint8Array][] = [
    ["lz4", Uint8Array.from([...await piped("lz4", ["-l", "-c"], KERNEL), ...SIZE_AFTER])],
    ["zstd", Uint8Array.from([...await piped("zstd", ["-q", "-c"], KERNEL), ...SIZE_AFTER])],
    ["xz", Uint8Array.from([...await piped("xz", ["--check=crc32", "-c"], KERNEL), ...SIZE_AFTER])],
    ["gzip", await piped("gzip", ["-c"], KERNEL)],
  ];
  for (const [name, payload] of packed) assertEquals(await unpackKernel(bzImage(payload)), KERNEL, name);
});

Deno.test("an uncompressed kernel is returned unchanged, a compressed arm64 image is unpacked", async () => {
  assertEquals(await unpackKernel(KERNEL), KERNEL);
  const image = new Uint8Array(100);
  image.set(text("MZ"));
  image.set(text("ARMd"), 56);
  assertEquals(await unpackKernel(image), image);
  assertEquals(await unpackKernel(await piped("gzip", ["-c"], image)), image);
});

Deno.test("an image without a kernel is refused", async () => {
  const refused = async (image: Uint8Array) => {
    const error = await assertRejects(() => unpackKernel(image), SbxError);
    return error.code;
  };
  assertEquals(await refused(new Uint8Array(0x300)), "image.kernel.invalid");
  assertEquals(await refused(bzImage(text("garbage"))), "image.kernel.invalid");
  assertEquals(
    await refused(bzImage(await piped("gzip", ["-c"], text("no kernel")))),
    "image.kernel.invalid",
  );
  const gzip = await piped("gzip", ["-c"], KERNEL);
  assertEquals(await refused(bzImage(gzip.subarray(0, 40))), "image.tool_failed");
});

Deno.test("missing tools are named with the packages that install them", async () => {
  const error = await assertRejects(
    () => requireTools({ sh: "dash", "no-such-tool": "no-such-package" }),
    SbxError,
  );
  assertEquals(error.code, "image.tool_missing");
  assert(error.message.includes("no-such-tool") && !error.message.includes("sh,"));
  assert(error.hint?.includes("no-such-package") && error.hint.includes("make setup"));
});

Deno.test("a build does not start without enough disk space", async () => {
  const error = await assertRejects(() => requireSpace("/tmp", 1e18), SbxError);
  assertEquals(error.code, "disk.full");
  await requireSpace("/tmp", 1);
});

Deno.test("a build refuses invalid packages and an aborted signal, and leaves nothing behind", async () => {
  const dir = await Deno.makeTempDir();
  const build = (apt: string[], npm: string[] = [], signal?: AbortSignal) =>
    buildImage({
      arch: currentArch(),
      profile: "code",
      packages: { suite: "trixie", apt, npm, bin: {} },
      out: join(dir, "out"),
      binaryVersion: "0.1.0",
      signal,
    });
  const code = async (work: Promise<unknown>) => (await assertRejects(() => work, SbxError)).code;
  for (const name of ["--option", "a b", "A", "x;y", "", "vim-", "vim-=1"]) {
    assertEquals(isAptPackage(name), false);
    assertEquals(await code(build([name])), "image.package.invalid");
  }
  assertEquals(await code(build([], ["left-pad"])), "image.npm.version");
  assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
  // What a profile may name, a build takes.
  for (const name of ["libstdc++6", "python3=3.13.5-1", "libc6:arm64"]) {
    assertEquals(isAptPackage(name), true);
    assertEquals(await code(build([name], [], AbortSignal.abort())), "image.interrupted");
  }
  assertEquals(await code(build([], [], AbortSignal.abort())), "image.interrupted");
  const version = (text: string) =>
    buildImage({
      arch: currentArch(),
      profile: "code",
      packages: { suite: "trixie", apt: [], npm: [], bin: {} },
      out: dir,
      binaryVersion: "0.1.0",
      version: text,
    });
  assertEquals(await code(version("1.0")), "manifest.version.invalid");
  assertEquals(await Array.fromAsync(Deno.readDir(dir)), []);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("a guest program that is missing, empty or does not bundle fails the build and is named", async () => {
  const root = await Deno.makeTempDir();
  const out = await Deno.makeTempDir();
  const source = async (folder: string, program: string) => {
    await Deno.mkdir(join(root, "cmd/guest", folder), { recursive: true });
    await Deno.writeTextFile(join(root, "cmd/guest", folder, "main.ts"), program);
  };
  const refused = async (message: RegExp) => {
    const error = await assertRejects(() => bundleGuestPrograms(out, undefined, root), SbxError);
    assertEquals(error.code, "image.guest.failed");
    assert(message.test(error.message), error.message);
  };
  await refused(/sbx-pty-agent .*cmd\/guest\/pty_agent\/main\.ts is missing or empty/);
  await source("pty_agent", "");
  await refused(/sbx-pty-agent .*missing or empty/);
  await source("pty_agent", 'import "./no-such-file.ts";');
  await refused(/sbx-pty-agent .*bundling/);
  await source("pty_agent", "console.log(1);");
  for (const folder of ["net_proxy", "mcp_server", "activity", "ask", "doctor"]) {
    await refused(new RegExp(`sbx-${folder.replace("_", "-")} .*missing or empty`));
    await source(folder, "console.log(1);");
  }
  await refused(/sbx-bench .*missing or empty/);
  await source("bench", "console.log(2);");
  await refused(/sbx-container .*missing or empty/);
  await source("container", "console.log(1);");
  await refused(/sbx-sign .*missing or empty/);
  await source("sign", "console.log(1);");
  await refused(/snapshots .*missing or empty/);
  await source("snapshots", "console.log(3);");
  await bundleGuestPrograms(out, undefined, root);
  assert((await Deno.readTextFile(join(out, "sbx-bench.js"))).includes("console.log(2)"));
  for (const dir of [root, out]) await Deno.remove(dir, { recursive: true });
});
