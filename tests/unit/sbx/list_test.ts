/** The table of sbx list. */
import { assertEquals } from "@std/assert";
import { formatFolder } from "../../../cmd/sbx/vm/list.ts";
import { formatDisk } from "../../../cmd/sbx/vm/new_vm.ts";

const repository = (dir: string, is_read_only = false) => ({
  name: dir.slice(1),
  dir,
  place: `/root${dir}`,
  is_repository: true,
  is_read_only,
  is_live: false,
  branches: [],
});

Deno.test("list: a VM of several folders shows how many more there are whose work comes back", () => {
  const folder = { dir: "/web", place: "/root/web" };
  assertEquals(formatFolder({}), "");
  assertEquals(formatFolder({ folder }), "/web");
  assertEquals(formatFolder({ folder, repositories: [repository("/web")] }), "/web");
  const repositories = [repository("/web"), repository("/api"), repository("/lib", true)];
  assertEquals(formatFolder({ folder, repositories }), "/web +1");
});

Deno.test("list: a disk is named before it is full", () => {
  const shown = (used: number) =>
    formatDisk({ disk: { size_gb: 20, used_bytes: used * 1024 ** 3 } } as Parameters<typeof formatDisk>[0]);
  assertEquals(["17.9 of 20 GiB", "18.0 of 20 GiB, nearly full"], [shown(17.9), shown(18)]);
});
