/** The table of sbx list. */
import { assertEquals } from "@std/assert";
import { formatFolder } from "../../../cmd/sbx/vm/list.ts";

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
