import { assert, assertEquals, assertRejects } from "@std/assert";
import { Buffer } from "node:buffer";
import { gzipSync } from "node:zlib";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { unpackLayers, type UnpackOptions } from "../../../../lib/publish/environment/mod.ts";
import type { Node, Tree } from "../../../../lib/publish/environment/tree.ts";
import { record, tar, type TarFile, writeLayer } from "../../../helper/tar.ts";

/** Unpacks layers in a temporary folder, and checks the image with erofs-utils. */
async function unpacked<T>(
  layers: (TarFile[] | Uint8Array)[],
  look: (tree: Tree, image: string, dir: string) => T | Promise<T>,
  options: UnpackOptions & { packed?: boolean } = {},
): Promise<T> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-unpack-" });
  try {
    const written = await Promise.all(layers.map((files) => writeLayer(dir, files, options.packed)));
    const tree = await unpackLayers(written, `${dir}/rootfs.erofs`, options);
    return await look(tree, `${dir}/rootfs.erofs`, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function text(command: string, ...args: string[]): Promise<string> {
  const { stdout, stderr, success } = await new Deno.Command(command, { args }).output();
  assert(success, `${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Contents of a file of /proc, empty where its task is gone. */
function contents(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    return "";
  }
}

/** Paths of a tree, with the targets of links. */
function paths(node: Node, path = ""): string[] {
  return [...node.children].sort().flatMap(([name, { node: child }]) => {
    const own = `${path}/${name}${child.kind === "symlink" ? ` → ${child.link}` : ""}`;
    return [own, ...paths(child, `${path}/${name}`)];
  });
}

/**
 * Type and mode of a file, from its inode: dump.erofs shows no set-id bits.
 * @param dump what it says of the file
 */
async function modeOf(image: string, dump: string): Promise<number> {
  const view = new DataView((await Deno.readFile(image)).buffer);
  const inodes = view.getUint32(1024 + 40, true) * 4096;
  return view.getUint16(inodes + Number(/NID: (\d+)/.exec(dump)![1]) * 32 + 4, true);
}

/** Refuses layers. @returns the error */
async function refusal(
  layers: (TarFile[] | Uint8Array)[],
  options?: UnpackOptions & { packed?: boolean },
): Promise<SbxError> {
  return await assertRejects(() => unpacked(layers, () => {}, options), SbxError);
}

Deno.test("an image has the contents, owners, modes, times and links of its layers", async () => {
  const big = new Uint8Array(10_000).fill(7);
  const long = `opt/${"d".repeat(90)}/${"f".repeat(200)}`;
  await unpacked([[
    { name: "bin/", mode: 0o755 },
    { name: "bin/su", content: "program", mode: 0o4755, mtime: 1_700_000_000 },
    { name: "bin/again", type: "1", link: "bin/su" },
    { name: "home/me/", uid: 100_000, gid: 5, mode: 0o2770 },
    { name: "home/me/big", content: big, uid: 100_000, gid: 5 },
    { name: "home/me/empty" },
    { name: "etc/here", type: "2", link: "../home/me/big" },
    { name: "etc/pipe", type: "6" },
    { name: "dev/null", type: "3" },
    { name: long, content: "long" },
    { name: "latin-\xe9 \n'\"$", content: "odd" },
  ]], async (tree, image, dir) => {
    assertEquals((await text("fsck.erofs", image)).trim(), "");
    await text("fsck.erofs", `--extract=${dir}/x`, image);
    const read = (path: string) => Deno.readTextFile(`${dir}/x/${path}`);
    assertEquals([await read("bin/su"), await read("bin/again"), await read(long)], [
      "program",
      "program",
      "long",
    ]);
    assertEquals(await Deno.readFile(`${dir}/x/home/me/big`), big);
    assertEquals(await Deno.readLink(`${dir}/x/etc/here`), "../home/me/big");
    assertEquals((await Deno.lstat(`${dir}/x/home/me/empty`)).size, 0);
    assertEquals((await Deno.lstat(`${dir}/x/bin/su`)).mtime, new Date(1_700_000_000_000));
    // Deno has no names that are not UTF-8.
    const odd = await text("sh", "-c", 'cd "$0" && cat lat* && printf %s lat* | od -An -tx1', `${dir}/x`);
    assertEquals(
      odd.replaceAll(/\s/g, ""),
      "odd" + Buffer.from("latin-\xe9 \n'\"$", "latin1").toString("hex"),
    );
    const su = await text("dump.erofs", "--path=/bin/su", image);
    assert(/Links: 2/.test(su), su);
    assertEquals(await modeOf(image, su), 0o104755);
    const me = await text("dump.erofs", "--path=/home/me", image);
    assertEquals(await modeOf(image, me), 0o042770);
    assert(/Uid: 100000\s+Gid: 5\b/.test(me), me);
    assertEquals(tree.find("etc/here"), tree.find("home/me/big"));
    assertEquals(tree.find("dev/null"), undefined);
  });
});

Deno.test("an image has no UUID, by which an overlay would find the files of another one", async () => {
  await unpacked([[{ name: "file", content: "x" }]], async (_, image) => {
    assertEquals((await Deno.readFile(image)).slice(1024 + 48, 1024 + 64), new Uint8Array(16));
  });
});

Deno.test("attributes stay as bytes, without the kernel's own notes", async () => {
  const capability = Uint8Array.from([1, 0, 0, 2, 0, 0x20, 0, 0, 0xff, 0xfe, 0, 0]);
  await unpacked([[
    {
      name: "ping",
      content: "x",
      xattrs: { "security.capability": capability, "user.note": "a=b", "trusted.overlay.opaque": "y" },
    },
  ]], async (tree, image) => {
    assertEquals([...tree.find("ping")!.xattrs.keys()], ["security.capability", "user.note"]);
    assertEquals([...tree.find("ping")!.xattrs.get("security.capability")!], [...capability]);
    assert(/Xattr size: [1-9]/.test(await text("dump.erofs", "--path=/ping", image)));
    assertEquals((await text("fsck.erofs", image)).trim(), "");
  });
});

Deno.test("a layer replaces, hides and empties what is below it", async () => {
  await unpacked([
    [
      { name: "a/one", content: "1" },
      { name: "a/two", content: "2" },
      { name: "b/three", content: "3" },
      { name: "c", content: "file" },
      { name: "usr/lib/" },
      { name: "lib", type: "2", link: "usr/lib" },
    ],
    [
      { name: "a/.wh.one" },
      { name: "b/new", content: "n" },
      { name: "b/kept", type: "1", link: "a/two" },
      { name: "b/.wh..wh..opq" },
      { name: "c/", mode: 0o700 },
      { name: "c/now-a-folder", content: "y" },
      { name: "lib/through-the-link", content: "z" },
    ],
  ], async (tree, image, dir) => {
    assertEquals(paths(tree.root), [
      ...["/a", "/a/two", "/b", "/b/kept", "/b/new", "/c", "/c/now-a-folder"],
      ...["/lib → usr/lib", "/usr", "/usr/lib", "/usr/lib/through-the-link"],
    ]);
    await text("fsck.erofs", `--extract=${dir}/x`, image);
    assertEquals(await Deno.readTextFile(`${dir}/x/b/kept`), "2");
  });
});

Deno.test("folders of many and of long names fill blocks", async () => {
  const names = Array.from({ length: 3000 }, (_, at) => `${at}-${"n".repeat(at % 200)}`);
  await unpacked(
    [names.map((name) => ({ name: `many/${name}`, content: name }))],
    async (_tree, image, dir) => {
      await text("fsck.erofs", `--extract=${dir}/x`, image);
      const found = Array.from(Deno.readDirSync(`${dir}/x/many`), ({ name }) => name).sort();
      assertEquals(found, names.toSorted());
      assertEquals(await Deno.readTextFile(`${dir}/x/many/${names[2999]}`), names[2999]);
    },
  );
});

Deno.test("the folder of programs is made if no layer has it", async () => {
  const layers: TarFile[][] = [[{ name: "srv", type: "2", link: "var/srv" }, {
    name: "var/srv/",
    mode: 0o700,
  }]];
  await unpacked(layers, async (tree, image) => {
    assertEquals(paths(tree.root), ["/srv → var/srv", "/var", "/var/srv", "/var/srv/app"]);
    assertEquals((await text("fsck.erofs", image)).trim(), "");
  }, { folder: "/srv/app" });
});

Deno.test("the same layers give the same image, packed or not", async () => {
  const layers: TarFile[][] = [[{ name: "a/b", content: "x" }, { name: "c", content: "y" }]];
  const [once, again, plain] = await Promise.all(
    [undefined, undefined, false].map((packed) =>
      unpacked(layers, (_, image) => Deno.readFile(image), { packed })
    ),
  );
  assertEquals(once, again);
  assertEquals(once, plain);
});

for (
  const [what, files, words] of [
    ["a path that leads out", [{ name: "../../etc/cron.d/x", content: "x" }], "leads out of the image"],
    ["a path with .. in the middle", [{ name: "a/../../x", content: "x" }], "leads out of the image"],
    [
      "a hard link that leads out",
      [{ name: "x", type: "1", link: "../../etc/shadow" }],
      "leads out of the image",
    ],
    ["a hard link to nothing", [{ name: "x", type: "1", link: "etc/shadow" }], "which is not a file"],
    ["a device", [{ name: "opt/mem", type: "4" }], "is a device"],
    ["a sparse file", [{ name: "x", type: "S", content: "x" }], "is a sparse file"],
    ["a loop of links", [
      { name: "a", type: "2", link: "b" },
      { name: "b", type: "2", link: "a" },
      { name: "a/x", content: "x" },
    ], "more than 40 links"],
    [
      "a path through a file",
      [{ name: "a", content: "x" }, { name: "b", type: "1", link: "a/x" }],
      "which is not a file",
    ],
    ["a link without a target", [{ name: "x", type: "2" }], "has no target"],
    [
      "a link that is too long",
      [{ name: "x", type: "2", link: "y/".repeat(3000) }],
      "longer than Linux allows",
    ],
    ["a path that is too long", [{ name: "y/".repeat(3000), content: "x" }], "longer than Linux allows"],
    [
      "an attribute with too long a name",
      [{ name: "x", xattrs: { [`user.${"y".repeat(300)}`]: "z" } }],
      "name is longer than Linux allows",
    ],
    ["a size in words", [{ name: "x", content: "x", pax: { size: "1e0" } }], "no valid size"],
    ["a size in base 16", [{ name: "x", content: "x", pax: { size: "0x1" } }], "no valid size"],
    ["a negative size", [{ name: "x", content: "x", pax: { size: "-1" } }], "no valid size"],
    [
      "a size beyond all disks",
      [{ name: "x", content: "x", pax: { size: "9".repeat(30) } }],
      "no valid size",
    ],
    [
      "extended headers without end",
      [1, 2, 3].map((number) => ({
        name: "p",
        type: "x",
        content: record(`k${number}`, new Uint8Array(500_000)),
      })),
      "extended headers of one file",
    ],
    ["an unknown type", [{ name: "x", type: "Z" }], "unknown type"],
    ["a content that ends early", [{ name: "x", content: "x", size: 4096 }], "ends"],
    [
      "attributes without end",
      [{ name: "x", xattrs: { "user.x": "y".repeat(70_000) } }],
      "bytes of attributes",
    ],
  ] satisfies [string, TarFile[], string][]
) {
  Deno.test(`a layer with ${what} is refused`, async () => {
    const { code, message } = await refusal([files]);
    assertEquals(code, "environment.layer.invalid");
    assert(message.includes(words), message);
  });
}

Deno.test("odd times and empty records of an extended header do no harm", async () => {
  await unpacked([[
    { name: "late", content: "x", pax: { mtime: "9".repeat(400) } },
    { name: "early", content: "x", pax: { mtime: "-5.5" } },
    { name: "named", content: "x", pax: { path: "", size: "" } },
  ]], async (tree, image) => {
    assertEquals(tree.find("late")!.mtime, 2 ** 34 - 1);
    assertEquals(tree.find("early")!.mtime, 0);
    assertEquals(tree.find("named")!.size, 1);
    assertEquals((await text("fsck.erofs", image)).trim(), "");
  });
});

Deno.test("a header for all files is left out, as Docker does", async () => {
  const global = { name: "g", type: "g", content: record("SCHILY.xattr.user.x", new Uint8Array(60_000)) };
  await unpacked([[global, { name: "x", content: "x" }]], (tree) => {
    assertEquals(tree.find("x")!.xattrs.size, 0);
  });
});

Deno.test("names, links and attributes have a limit for all files together", async () => {
  const many = Array.from({ length: 10 }, (_, at) => ({
    name: `f${at}`,
    xattrs: { "user.x": new Uint8Array(60_000) },
  }));
  const { code, message } = await refusal([many], { limits: { names: 500_000 } });
  assertEquals(code, "environment.layer.invalid");
  assert(message.includes("names, links and attributes"), message);
});

Deno.test("folders deeper than any path are hidden by a layer above, and by their own", async () => {
  const deep = (from: string) => ({ name: `${from}${"a/".repeat(2000)}` });
  const layer: TarFile[] = [deep("")];
  for (let number = 0; number < 10; number++) {
    layer.push({
      name: `s${number}`,
      type: "2",
      link: `${number ? `/s${number - 1}/` : ""}${"a/".repeat(1990)}`,
    });
    layer.push(deep(`s${number}/`));
  }
  await unpacked([[...layer, { name: ".wh..wh..opq" }]], (tree) => {
    assertEquals(tree.root.children.size, 11);
  });
  await unpacked([layer, [{ name: "new" }, { name: ".wh..wh..opq" }]], (tree) => {
    assertEquals([...tree.root.children.keys()], ["new"]);
  });
});

Deno.test("a folder that is hidden once more is not read once more", async () => {
  const files = Array.from({ length: 5000 }, (_, at) => ({ name: `f${at}` }));
  const hidden = Array.from({ length: 5000 }, () => ({ name: ".wh..wh..opq" }));
  await unpacked([[{ name: "old" }], [...files, ...hidden]], (tree) => {
    assertEquals(tree.root.children.size, 5000);
    assertEquals(tree.root.hiddenBy, 1);
  });
});

Deno.test("a working folder takes no file's place", async () => {
  for (const folder of ["/etc/passwd", "/etc/passwd/x", "/link/x"]) {
    const { message } = await refusal([[
      { name: "etc/passwd", content: "x" },
      { name: "link", type: "2", link: "/etc/passwd" },
    ]], { folder });
    assert(message.includes("which is a file"), message);
  }
});

Deno.test("a link that does not fit into a block with its attributes has blocks of its own", async () => {
  const names = [3000, 5000, 60_000];
  await unpacked([
    names.map((length) => ({
      ...{ name: `l${length}`, type: "2", link: "t".repeat(2000) },
      xattrs: { "user.x": new Uint8Array(length) },
    })),
  ], async (_, image) => {
    for (const length of names) {
      const dump = await text("dump.erofs", `--path=/l${length}`, image);
      assert(/Layout: 0/.test(dump), dump);
    }
    assertEquals((await text("fsck.erofs", image)).trim(), "");
  });
});

Deno.test("an image whose last inode ends with a block is read by all tools", async () => {
  for (const files of [48, 49, 50]) {
    const names = Array.from({ length: files }, (_, at) => ({ name: `f${String(at).padStart(3, "0")}` }));
    await unpacked([names], async (_, image) => {
      assertEquals((await text("fsck.erofs", image)).trim(), "");
    });
  }
});

Deno.test("a refusal in the middle of a layer ends the program that unpacks it", async () => {
  const rest = { name: "rest", content: crypto.getRandomValues(new Uint8Array(65_536)) };
  await refusal([[{ name: "mem", type: "3" }, ...Array.from({ length: 100 }, () => rest)]]);
  // A thread may end between its name and the list of its children.
  const tasks = [...Deno.readDirSync(`/proc/${Deno.pid}/task`)].map(({ name }) => name);
  const children = tasks.map((task) => contents(`/proc/${Deno.pid}/task/${task}/children`)).join(" ");
  const names = children.split(/\s+/).filter(Boolean).map((pid) => contents(`/proc/${pid}/comm`).trim());
  assert(!names.includes("gzip"), names.join());
});

Deno.test("a link to the host's files leads into the image alone", async () => {
  const outside = await Deno.makeTempDir();
  try {
    await unpacked([[
      { name: "a", type: "2", link: outside },
      { name: "a/x", content: "x" },
      { name: "b", type: "2", link: "../../../../../.." },
      { name: "b/y", content: "y" },
    ]], (tree) => {
      assertEquals(tree.root.children.has("y"), true);
      assertEquals(tree.find(`${outside.slice(1)}/x`)?.size, 1);
    });
    assertEquals([...Deno.readDirSync(outside)], []);
  } finally {
    await Deno.remove(outside);
  }
});

Deno.test("bytes that are no archive, and a damaged one, are refused", async () => {
  const archive = tar([{ name: "x", content: "x" }]);
  archive[0] = 65;
  for (const bytes of [archive, new TextEncoder().encode("no archive".repeat(100))]) {
    assertEquals((await refusal([bytes])).code, "environment.layer.invalid");
  }
});

Deno.test("a layer whose bytes are not those of its digest is refused", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const layer = await writeLayer(dir, [{ name: "x", content: "x" }]);
    const other = { ...layer, digest: `sha256:${"0".repeat(64)}` };
    const { code } = await assertRejects(() => unpackLayers([other], `${dir}/out`), SbxError);
    assertEquals(code, "environment.digest");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a layer that grows out of proportion, and too many bytes, are refused before they are written", async () => {
  const bomb = [{ name: "zeros", content: new Uint8Array(8 * 1024 ** 2) }];
  const { code, message } = await refusal([bomb], { limits: { ratioFrom: 1024 ** 2 } });
  assertEquals(code, "environment.layer.too_large");
  assert(message.includes("200 times its size"), message);
  assertEquals(
    (await refusal([bomb], { limits: { unpacked: 1024 ** 2 } })).code,
    "environment.layer.too_large",
  );
});

Deno.test("a layer of another size than its manifest says is refused: a limit counts from that", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const layer = await writeLayer(dir, [{ name: "x", content: "x" }]);
    for (const size of [layer.size - 1, layer.size * 1000]) {
      const { code } = await assertRejects(
        () => unpackLayers([{ ...layer, size }], `${dir}/${size}`),
        SbxError,
      );
      assertEquals(code, "environment.layer.invalid");
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a packed layer that ends early is refused", async () => {
  const packed = gzipSync(tar([{ name: "x", content: crypto.getRandomValues(new Uint8Array(50_000)) }]));
  for (const bytes of [packed.subarray(0, 20_000), Buffer.concat([packed, packed.subarray(0, 20)])]) {
    assertEquals((await refusal([bytes], { packed: false })).code, "environment.layer.invalid");
  }
});

Deno.test("an interrupt ends the work", async () => {
  const error = await refusal([[{ name: "x", content: new Uint8Array(1024 ** 2) }]], {
    signal: AbortSignal.abort(),
  });
  assertEquals(error.code, "image.interrupted");
});
