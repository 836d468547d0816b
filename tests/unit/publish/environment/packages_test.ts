import { assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { DatabaseSync } from "node:sqlite";
import { unpackLayers } from "../../../../lib/publish/environment/mod.ts";
import { environmentObom } from "../../../../lib/publish/environment/obom.ts";
import { PackageFinder } from "../../../../lib/publish/environment/packages.ts";
import { readRpmDatabase } from "../../../../lib/publish/environment/rpm.ts";
import { type TarFile, writeLayer } from "../../../helper/tar.ts";

async function found(...layers: TarFile[][]) {
  const dir = await Deno.makeTempDir();
  try {
    const finder = new PackageFinder(dir);
    const written = await Promise.all(layers.map((files) => writeLayer(dir, files)));
    const tree = await unpackLayers(written, `${dir}/out`, {
      watch: (node, path) => finder.watch(node, path),
    });
    return {
      packages: finder.packages(tree).map(({ type, name, version }) => `${type} ${name} ${version}`),
      all: finder.packages(tree),
      distribution: finder.distribution(tree),
      unread: finder.unread(tree),
    };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** A program of Go, as far as its list of modules: after a head of 32 bytes, two texts with their lengths. */
function goProgram(modules: string): Uint8Array {
  const text = (value: string) => {
    const bytes = Buffer.from(value, "latin1");
    return Buffer.concat([Buffer.from([bytes.length & 0x7f | 0x80, bytes.length >> 7]), bytes]);
  };
  const head = Buffer.alloc(32);
  head.write("\xff Go buildinf:", "latin1");
  head[15] = 2;
  return Buffer.concat([
    Buffer.alloc(70_001, 1),
    head,
    text("go1.25.1"),
    text("m".repeat(16) + modules + "m".repeat(16)),
  ]);
}

/** A database of rpm with a package, a key, and a header that ends early. */
async function rpmDatabase(): Promise<Uint8Array> {
  const header = (fields: [tag: number, value: string | number][]) => {
    const values = fields.map(([, value]) => {
      if (typeof value === "string") return Buffer.from(`${value}\0`);
      const bytes = Buffer.alloc(4);
      bytes.writeInt32BE(value);
      return bytes;
    });
    const index = Buffer.alloc(8 + fields.length * 16);
    index.writeInt32BE(fields.length);
    let offset = 0;
    fields.forEach(([tag, value], at) => {
      [tag, typeof value === "string" ? 6 : 4, offset, 1].forEach((number, field) =>
        index.writeInt32BE(number, 8 + at * 16 + field * 4)
      );
      offset += values[at].length;
    });
    return Buffer.concat([index, ...values]);
  };
  const bash = header([[1000, "bash"], [1001, "5.2"], [1002, "3.fc42"], [1003, 1], [1022, "x86_64"], [
    1014,
    "GPL-3.0-or-later",
  ]]);
  const path = await Deno.makeTempFile();
  const database = new DatabaseSync(path);
  database.exec("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB NOT NULL)");
  const insert = database.prepare("INSERT INTO Packages (blob) VALUES (?)");
  insert.run(bash);
  insert.run(header([[1000, "gpg-pubkey"], [1001, "1"], [1002, "2"]]));
  insert.run(bash.subarray(0, 60));
  database.close();
  const bytes = await Deno.readFile(path);
  await Deno.remove(path);
  return bytes;
}

Deno.test("packages of every kind are found in the files that the image has in the end", async () => {
  const go = goProgram("path\tx\nmod\texample.com/me\t(devel)\t\ndep\tgolang.org/x/net\tv0.40.0\th1:x=\n");
  const result = await found([
    { name: "etc/os-release", type: "2", link: "../usr/lib/os-release" },
    { name: "usr/lib/os-release", content: 'ID=alpine\nVERSION_ID="3.22.1"\n' },
    {
      name: "lib/apk/db/installed",
      content: "C:Q1x=\nP:musl\nV:1.2.5-r9\nA:x86_64\nL:MIT\n\nP:zlib\nV:1.3\n",
    },
    {
      name: "var/lib/dpkg/status.d/base",
      content: "Package: base-files\nVersion: 12.4\nArchitecture: amd64\n",
    },
    {
      name: "usr/lib/node_modules/npm/package.json",
      content: '{"name":"npm","version":"11.0.0","license":"Artistic-2.0"}',
    },
    { name: "usr/lib/node_modules/npm/docs/package.json", content: '{"name":"docs","version":"1.0.0"}' },
    {
      name: "opt/v/lib/python3/site-packages/Foo_Bar-2.dist-info/METADATA",
      content: "Name: Foo.Bar\nVersion: 2\n\nText",
    },
    { name: "bin/tool", content: go, mode: 0o755 },
    { name: "usr/lib/sysimage/rpm/rpmdb.sqlite", content: await rpmDatabase() },
    { name: "var/lib/rpm/Packages", content: "x" },
    { name: "usr/lib/node_modules/gone/package.json", content: '{"name":"gone","version":"1.0.0"}' },
  ], [{ name: "usr/lib/node_modules/.wh.gone" }]);
  assertEquals(result.packages, [
    "apk musl 1.2.5-r9",
    "apk zlib 1.3",
    "deb base-files 12.4",
    "golang golang.org/x/net v0.40.0",
    "golang stdlib v1.25.1",
    "npm npm 11.0.0",
    "pypi foo-bar 2",
    "rpm bash 1:5.2-3.fc42",
  ]);
  assertEquals(result.distribution, { id: "alpine", version: "3.22.1" });
  assertEquals(result.unread, ["var/lib/rpm/Packages"]);
});

Deno.test("an environment's OBOM names each package by its purl", async () => {
  const { all, distribution, unread } = await found([
    { name: "etc/os-release", content: "ID=debian\nVERSION_CODENAME=bookworm\n" },
    {
      name: "var/lib/dpkg/status",
      content: "Package: bash\nStatus: install ok installed\nVersion: 5.2+b1\nArchitecture: amd64\n",
    },
    { name: "a/node_modules/@x/y/package.json", content: '{"name":"@x/y","version":"1.0.0"}' },
  ]);
  const document = JSON.parse(environmentObom({
    ...{ arch: "x86_64", reference: "docker.io/library/x:1", digest: `sha256:${"a".repeat(64)}` },
    ...{ rootfsHash: "b".repeat(64), generatorVersion: "0.1.0", distribution, packages: all, unread },
  }));
  assertEquals(document.components.map(({ purl }: { purl: string }) => purl), [
    "pkg:deb/debian/bash@5.2%2Bb1?arch=amd64&distro=debian-bookworm",
    "pkg:npm/%40x/y@1.0.0",
  ]);
});

Deno.test("databases that would keep SQLite busy for ever are left unread, without a file beside the image", async () => {
  const databases: [string, boolean][] = [
    [
      "CREATE VIEW Packages AS WITH RECURSIVE n(hnum) AS (SELECT 1 UNION ALL SELECT hnum + 1 FROM n) SELECT hnum, x'00' AS blob FROM n",
      false,
    ],
    [
      "CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB AS (zeroblob(900000000))); INSERT INTO Packages (hnum) VALUES (1)",
      false,
    ],
    ["CREATE TABLE other (x)", false],
    ["PRAGMA journal_mode = wal; CREATE TABLE Packages (hnum INTEGER PRIMARY KEY, blob BLOB)", true],
  ];
  for (const [sql, isRead] of databases) {
    const dir = await Deno.makeTempDir();
    try {
      const database = new DatabaseSync(`${dir}/made`);
      database.exec(sql);
      database.close();
      const packages = readRpmDatabase(await Deno.readFile(`${dir}/made`), `${dir}/copy`);
      assertEquals(packages, isRead ? [] : undefined, sql);
      assertEquals([...Deno.readDirSync(dir)].map(({ name }) => name), ["made"]);
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  }
});

Deno.test("names that no OBOM can have, and more packages than it can hold, are left out", async () => {
  const { packages, unread } = await found([
    { name: "node_modules/a/package.json", content: '{"name":"\\ud800","version":"1"}' },
    { name: "node_modules/b/package.json", content: '{"name":"b","version":"1"}' },
    {
      name: "node_modules/c/package.json",
      content: JSON.stringify({ name: "c".repeat(5000), version: "1" }),
    },
    { name: "node_modules/d/package.json" },
    {
      name: "lib/apk/db/installed",
      content: Array.from({ length: 100_001 }, (_, at) => `P:p${at}\nV:1\n`).join("\n"),
    },
  ]);
  assertEquals(packages, ["npm b 1"]);
  assertEquals(unread, ["lib/apk/db/installed"]);
});
