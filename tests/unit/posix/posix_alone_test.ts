/**
 * Files by POSIX's calls alone, as macOS has them (ffi/posix), beside Linux's own: the same answers for the
 * same trees. Here they run with Linux's values (tests/helper/linux_posix.ts); macOS's are compared with its
 * headers on a Mac (scripts/verify-mac.sh).
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "node:path";
import { CallError } from "../../../ffi/libc/descriptor.ts";
import { openBeneath, OpenError } from "../../../ffi/host/files.ts";
import type { Folder, PathHandle } from "../../../ffi/host/handle.ts";
import { openFolder, readNames } from "../../../ffi/host/files.ts";
import { DARWIN, openBeneathBySteps, PosixFolder, readNamesOf } from "../../../ffi/posix/mod.ts";
import { runChild } from "../../helper/child.ts";
import { LINUX_CALLS } from "../../helper/linux_posix.ts";
import { whileSwapped } from "../../helper/swapped.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

const TREE = String.raw`
  mkdir -p real/in deep/er shut; echo one >real/a; printf 'caf' >"real/$(printf 'caf\351')"; ln -s real link
  ln -s ../real/a deep/up; ln -s a real/near; ln -s /etc/passwd absolute; ln -s ../outside out; ln -s loop loop
  ln -s .. real/parent; mkfifo pipe; ln -s real/../real/in twice; ln -s missing dangling
  ln -s "$(printf '\357\273\277/real/a')" marked; ln -s "$(printf '\357\273\277real')" near
  truncate -s 1M holes; printf x | dd of=holes bs=1 seek=524288 conv=notrunc status=none
`;

async function withTree(work: (dir: string) => void | Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir();
  const dir = join(root, "tree");
  try {
    await Deno.mkdir(dir);
    await Deno.writeTextFile(join(root, "outside"), "secret");
    await runChild("sh", { args: ["-ec", TREE], cwd: dir });
    await work(dir);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** What an open below a folder finds, or its error. */
function outcome(open: () => PathHandle): string {
  try {
    using found = open();
    const { ino } = Deno.statSync(found.path);
    return `inode ${ino}`;
  } catch (error) {
    if (error instanceof OpenError) return error.code;
    throw error;
  }
}

Deno.test("a path below a folder leads to the same file, or to the same error, as openat2's", () =>
  withTree((dir) => {
    const paths = [
      ...[
        "",
        ".",
        "real",
        "real/a",
        "real/./a",
        "real//a",
        "real/../real/a",
        "link",
        "link/a",
        "deep/up",
        "real/near",
      ],
      ...[
        "twice",
        "twice/../a",
        "real/parent/real/a",
        "missing",
        "real/missing",
        "real/a/b",
        "dangling",
        "loop",
        "marked",
        "near/a",
      ],
      ...[
        "..",
        "../outside",
        "real/../../outside",
        "absolute",
        "out",
        "real/parent/../outside",
        "/etc/passwd",
        "holes",
      ],
    ];
    for (const directory of [false, true]) {
      for (const path of paths) {
        // An absolute path is one below the folder for neither.
        if (path.startsWith("/")) continue;
        assertEquals(
          outcome(() => openBeneathBySteps(LINUX_CALLS, dir, path, directory)),
          outcome(() => openBeneath(dir, path, { directory })),
          `${path}${directory ? ", as a folder" : ""}`,
        );
      }
    }
    assertEquals(outcome(() => openBeneathBySteps(LINUX_CALLS, dir, "out", false)), "EXDEV");
  }));

Deno.test("a folder that another program swaps for a link again and again never leads out", async () =>
  await withTree(async (dir) => {
    await Deno.mkdir(join(dir, "d"));
    await Deno.writeTextFile(join(dir, "d/f"), "inside");
    await Deno.writeTextFile(join(dir, "..", "f"), "secret");
    let found = 0;
    await whileSwapped(dir, "../../tree/..", async () => {
      for (let tries = 0; tries < 3000 || found < 10 && tries < 3_000_000; tries++) {
        try {
          using file = openBeneathBySteps(LINUX_CALLS, dir, "d/f", false);
          found++;
          assert(!Deno.readTextFileSync(file.path).includes("secret"));
        } catch (error) {
          assert(error instanceof OpenError, `${error}`);
        }
        if (tries % 100 === 0) await new Promise((resolve) => setTimeout(resolve));
      }
    });
    assert(found > 0, "it was there at times");
  }));

Deno.test("no descriptor stays open", () =>
  withTree((dir) => {
    // Of this tree alone: Deno opens its caches when it likes.
    const count = () =>
      [...Deno.readDirSync("/proc/self/fd")].filter(({ name }) => {
        try {
          return Deno.readLinkSync(`/proc/self/fd/${name}`).startsWith(dir);
        } catch {
          return false;
        }
      }).length;
    openBeneathBySteps(LINUX_CALLS, dir, "real/a", false)[Symbol.dispose]();
    const before = count();
    for (let round = 0; round < 50; round++) {
      for (const path of ["real/a", "out", "twice/../a", "missing/x", "real/../.."]) {
        outcome(() => openBeneathBySteps(LINUX_CALLS, dir, path, false));
      }
      using folder = PosixFolder.open(LINUX_CALLS, dir);
      assertThrows(() => folder.folder(bytes("link/in")), CallError);
      folder.folder(bytes("real/in"))[Symbol.dispose]();
      [...folder.names()];
    }
    assertEquals(count(), before);
  }));

Deno.test("folders: names, facts, files, links and holes as Linux tells them", () =>
  withTree(async (dir) => {
    const look = (root: Folder) => {
      using real = root.folder(bytes("real"));
      using file = real.openFile(bytes("a"))!;
      using holes = root.openFile(bytes("holes"))!;
      const code = (path: string) => assertThrows(() => root.folder(bytes(path)), CallError).code;
      const { type, mode, uid, gid, links, size, allocated, mtime, ctime } = real.statOf(bytes("a"))!;
      const buffer = new Uint8Array(10);
      return {
        names: [...real.names()].map((name) => name.join()).sort(),
        facts: { type, mode, uid, gid, links, size, allocated, mtime, ctime },
        link: [root.statOf(bytes("link"))?.type, text(root.readLink(bytes("link")))],
        absent: root.statOf(bytes("missing")),
        others: ["link", "pipe", "real"].map((name) => root.openFile(bytes(name))),
        codes: ["link", "link/in", "..", "missing", "holes"].map(code),
        content: text(buffer.subarray(0, file.read(buffer, 0))),
        data: [holes.nextData(0), holes.nextData(524288 + 4096)],
        self: root.folder(new Uint8Array()).stat().type,
      };
    };
    using linux = openFolder(dir);
    using posix = PosixFolder.open(LINUX_CALLS, dir);
    assertEquals(look(posix), look(linux));
    const named = async (names: AsyncIterable<Uint8Array>) =>
      (await Array.fromAsync(names, (name) => name.join())).sort();
    assertEquals(await named(readNamesOf(LINUX_CALLS, dir)), await named(readNames(dir)));
  }));

Deno.test("folders: what is made, moved, dated and removed", () =>
  withTree(async (dir) => {
    using root = PosixFolder.open(LINUX_CALLS, dir);
    {
      using file = root.create(bytes("new"), 0o640);
      file.write(bytes("hello"), 3);
      file.truncate(7);
      file.chmod(0o604);
      file.setTime(1_000_000_000n, 5n);
      await file.sync();
      assertEquals(file.stat().mtime, "1000000000.5");
    }
    assertEquals((await Deno.stat(join(dir, "new"))).mode! & 0o777, 0o604);
    assertEquals(assertThrows(() => root.create(bytes("new")), CallError).code, "EEXIST");
    root.makeLink(bytes("to"), bytes("new"));
    root.setTimeOf(bytes("to"), 1_000_000_001n, 6n);
    assertEquals(root.statOf(bytes("to"))?.mtime, "1000000001.6");
    assertEquals(root.statOf(bytes("new"))?.mtime, "1000000000.5", "the link's own");
    root.makeFolder(bytes("made"), 0o711);
    root.rename(bytes("new"), bytes("moved"));
    assertEquals(assertThrows(() => root.removeFolder(bytes("real")), CallError).code, "ENOTEMPTY");
    for (const name of ["to", "moved"]) root.remove(bytes(name));
    root.removeFolder(bytes("made"));
    for (const name of ["new", "to", "moved", "made"]) assertEquals(root.statOf(bytes(name)), undefined);
  }));

Deno.test("macOS's struct stat is read by its places, and its files have paths by number", () => {
  const view = new DataView(new ArrayBuffer(DARWIN.statBytes));
  view.setInt32(0, 16777220, true);
  view.setUint16(4, 0o100644, true);
  view.setUint16(6, 2, true);
  view.setBigUint64(8, 2n ** 40n + 7n, true);
  view.setUint32(16, 501, true);
  view.setUint32(20, 20, true);
  view.setBigInt64(48, 1_700_000_000n, true);
  view.setBigInt64(56, 9n, true);
  view.setBigInt64(64, 1_700_000_001n, true);
  view.setBigInt64(96, 5000n, true);
  view.setBigInt64(104, 8n, true);
  const { stamp: _, ...stat } = DARWIN.parseStat(view);
  assertEquals(stat, {
    ...{ type: "file", mode: 0o644, uid: 501, gid: 20, links: 2, size: 5000, allocated: 4096 },
    ...{ mtime: "1700000000.9", ctime: 1_700_000_001, device: 16777220, inode: 2n ** 40n + 7n },
  });
  assertEquals(DARWIN.pathOf(9, stat), "/.vol/16777220/1099511627783");
});
