/** Listings of a workspace: every name once, over pages, and those that are not UTF-8 named. */
import { assertEquals, assertRejects } from "@std/assert";
import { openBeneath } from "../../../../ffi/libc/beneath.ts";
import { readNames } from "../../../../ffi/libc/directory.ts";
import type { FileList } from "../../../../lib/client/api/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { FileLister } from "../../../../lib/base/files/mod.ts";
import { Workspace } from "../../../../lib/service/run/workspace.ts";
import { runChild } from "../../../helper/child.ts";

async function withFolder(commands: string, work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await runChild("sh", { args: ["-ec", commands], cwd: dir });
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const pathsOf = ({ entries }: FileList) => entries.map(({ path }) => path);

Deno.test("names that are not UTF-8 are listed as left out, with their bytes escaped", () =>
  withFolder(
    String.raw`touch "$(printf 'caf\351')" "$(printf '\357\273\277bom')" 'back\slash' ok
      mkdir "$(printf 'd\377')" sub; touch "$(printf 'd\377')/inside" "$(printf 'sub/\303(é')"`,
    async (dir) => {
      const list = await new Workspace(dir).list("", 3);
      assertEquals(pathsOf(list), ["back\\slash", "ok", "sub", "\ufeffbom"]);
      assertEquals(list.left_out.sort(), ["caf\\xe9", "d\\xff", "sub/\\xc3(é"]);
      assertEquals([list.left_out_count, list.truncated], [3, false]);
    },
  ));

for (const limit of [1, 2, 3, 5, 100]) {
  Deno.test(`pages of ${limit} have every entry once, each folder before its content`, () =>
    withFolder(
      "mkdir -p a/b/c a.d e; touch a/b/c/1 a/b/2 a/3 a.d/4 z a/é; " +
        String.raw`touch "$(printf 'a/\377')" "$(printf 'a/\376')"`,
      async (dir) => {
        const page = (cursor?: string) =>
          new FileLister((folder) => openBeneath(dir, folder, { directory: true }), readNames, limit).list(
            "",
            9,
            cursor,
          );
        const pages = [await page()];
        while (pages.at(-1)!.truncated) pages.push(await page(pages.at(-1)!.next_cursor));
        const all = ["a", "a/3", "a/b", "a/b/2", "a/b/c", "a/b/c/1", "a/é", "a.d", "a.d/4", "e", "z"];
        assertEquals(pages.flatMap(pathsOf), all);
        assertEquals(pages.flatMap(({ left_out }) => left_out).sort(), ["a/\\xfe", "a/\\xff"]);
        assertEquals(pages.at(-1)!.next_cursor, undefined);
      },
    ));
}

Deno.test("a page of a folder with many names is its first ones", () =>
  withFolder("seq -f 'n%05g' 25000 | xargs touch", async (dir) => {
    const workspace = new Workspace(dir);
    const first = await workspace.list();
    assertEquals([first.entries.length, first.entries[0].path, first.truncated], [10_000, "n00001", true]);
    const second = await workspace.list("", 1, first.next_cursor);
    assertEquals(second.entries[0].path, "n10001");
    const third = await workspace.list("", 1, second.next_cursor);
    assertEquals([third.entries.length, third.truncated], [5000, false]);
  }));

Deno.test("a cursor of another folder is refused, and leads nowhere", () =>
  withFolder("mkdir -p a b; touch a/1 b/2", async (dir) => {
    const list = (cursor: string) => assertRejects(() => new Workspace(dir).list("a", 1, cursor), SbxError);
    assertEquals((await list("b/2")).code, "request.invalid");
    assertEquals((await list("a/../b/2")).code, "path.outside_workspace");
    assertEquals((await list("/workspace/a/1")).code, "request.invalid");
  }));
