import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import {
  type Environment,
  environmentKey,
  environmentsDir,
  nameEnvironment,
} from "../../../lib/release/environment/mod.ts";
import { writeRequest } from "../../../lib/service/vm/boot.ts";
import {
  finishChange,
  imageRecord,
  parseConflicts,
  withImage,
} from "../../../lib/service/vm/image_change.ts";
import { readRecord, sessionPaths, type VmRecord, writeRecord } from "../../../lib/session/mod.ts";

const ID = "01890000-0000-7000-8000-000000000001";
const HASH = "0".repeat(64);

async function inHome(work: (home: ReturnType<typeof homeOf>) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-image-change-" });
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    await Deno.mkdir(sessionPaths(home, ID).dir, { recursive: true });
    await work(home);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Puts the record of an image into a home, by its name. */
async function addImage(home: { dir: string }, letter: string, key?: string): Promise<Environment> {
  const digest = `sha256:${letter.repeat(64)}`;
  const environment: Environment = {
    schema: "sbx.environment.v1",
    key: key ?? environmentKey(digest, "x86_64"),
    arch: "x86_64",
    reference: `registry.example.com/${letter}:1`,
    digest,
    created_at: "2026-01-01T00:00:00.000Z",
    config: { env: {}, user: `user-${letter}` },
    rootfs: { hash: HASH, size: 1 },
    obom: { hash: HASH, size: 1 },
    provenance: { config_digest: digest, layers: [], builder: "test", puller: "test" },
  };
  await Deno.mkdir(join(environmentsDir(home), environment.key), { recursive: true });
  await Deno.writeTextFile(
    join(environmentsDir(home), environment.key, "environment.json"),
    JSON.stringify(environment),
  );
  await nameEnvironment(home, { reference: environment.reference, arch: "x86_64", key: environment.key });
  return environment;
}

function recordOf({ key, reference, digest }: Environment): VmRecord {
  return {
    id: ID,
    name: "dev",
    profile_id: "code",
    profile_revision: "1.0.0",
    created_at: "2026-01-01T00:00:00.000Z",
    persistent: true,
    cpus: 1,
    ram_mb: 512,
    scratch_gb: 4,
    env: {},
    files: [],
    environment: { key, reference, digest },
    assets: { version: "1", arch: "x86_64", kernel: "k", initrd: "i", rootfs: `/images/${key}` },
  };
}

Deno.test("an image is replaced, and back: what was changed last is compared, what was chosen last is undone", () =>
  inHome(async (home) => {
    const [a, b, c] = [await addImage(home, "a"), await addImage(home, "b"), await addImage(home, "c")];
    const record = recordOf(a);
    const start = { env: {}, image: a.reference, environment: a.key };
    const rootfs = record.assets.rootfs;
    const second = await withImage(home, { record }, start, { image: "registry.example.com/b:1" });
    assertEquals(second, {
      env: {},
      image: b.reference,
      environment: b.key,
      before: { image: a.reference, environment: a.key, rootfs },
    });
    assertEquals(await withImage(home, { record }, second, { image: b.reference }), second);
    const third = await withImage(home, { record }, second, { image: c.reference });
    assertEquals(third.before, { image: b.reference, environment: b.key, rootfs });
    const undone = await withImage(home, { record }, third, { undo_image: true });
    assertEquals([undone.environment, undone.before?.environment], [b.key, c.key]);
    const { environment, before } = await imageRecord(home, undone);
    assertEquals([environment?.user, before], ["user-b", {
      key: c.key,
      reference: c.reference,
      digest: c.digest,
    }]);
  }));

Deno.test("a VM of a profile's packages gets an image, and goes back to its profile's", () =>
  inHome(async (home) => {
    const a = await addImage(home, "a");
    const { environment: _, ...record } = recordOf(a);
    const changed = await withImage(home, { record }, { env: {} }, { image: a.reference });
    assertEquals((await imageRecord(home, changed)).before, {});
    const undone = await withImage(home, { record }, changed, { undo_image: true });
    assertEquals([undone.image, undone.environment], [undefined, undefined]);
  }));

Deno.test("an image that is missing, or made by an older sbx, and an undo of nothing are refused", () =>
  inHome(async (home) => {
    const record = recordOf(await addImage(home, "a"));
    await addImage(home, "d", "d".repeat(32));
    const change = (image: string) => withImage(home, { record }, { env: {} }, { image });
    assertEquals(
      (await assertRejects(() => change("registry.example.com/x:1"), SbxError)).code,
      "image.missing",
    );
    await assertRejects(() => change("registry.example.com/d:1"), SbxError, "made by an older sbx");
    const { code } = await assertRejects(
      () => withImage(home, { record }, { env: {} }, { undo_image: true }),
      SbxError,
    );
    assertEquals(code, "image.no_undo");
  }));

Deno.test("a service that ended between the two files of a change leaves the image that was asked for", () =>
  inHome(async (home) => {
    const [a, b] = [await addImage(home, "a"), await addImage(home, "b")];
    const paths = sessionPaths(home, ID);
    const record = recordOf(a);
    await writeRecord(paths, record);
    assertEquals(await finishChange(home, paths, record), record);
    const before = { image: a.reference, environment: a.key, rootfs: record.assets.rootfs };
    await writeRequest(paths, { env: {}, image: b.reference, environment: b.key, before });
    const finished = await finishChange(home, paths, record);
    assertEquals([finished.environment?.key, finished.before?.key], [b.key, a.key]);
    assertEquals(await readRecord(paths), JSON.parse(JSON.stringify(finished)));
    assertEquals(await finishChange(home, paths, finished), finished);
  }));

Deno.test("a guest's list of conflicts is any bytes: what is no list is none", () => {
  const list = "changed /etc/a%20b\nadded /var/lib/dpkg/status\nremoved /x/%FF\ntotal 7\n";
  assertEquals(parseConflicts(list), {
    files: [
      { path: "/var/lib/dpkg/status", kind: "added", is_package_list: true },
      { path: "/etc/a b", kind: "changed", is_package_list: false },
      { path: "/x/%FF", kind: "removed", is_package_list: false },
    ],
    total: 7,
  });
  for (
    const text of [
      "",
      "total",
      "changed /a\n",
      "changed /a\n/b\ntotal 2\n",
      "changed a\ntotal 1\n",
      "eaten /a\ntotal 1\n",
      "changed /a\ntotal 0\n",
      "changed /a\x1b[2J\ntotal 1\n",
      "changed /a\ntotal 1\nmore\n",
    ]
  ) assertEquals(parseConflicts(text), undefined, text);
  const long = (count: number) => parseConflicts("added /a\n".repeat(count) + "total 100000\n");
  assertEquals([long(1000)?.files.length, long(1001)], [1000, undefined]);
});
