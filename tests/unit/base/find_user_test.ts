/** Users of this machine, by name and by uid. */
import { assertEquals } from "@std/assert";
import { findUser } from "../../../lib/base/user/mod.ts";

Deno.test({
  name: "a user is found by name and by uid, root too, and no other",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const root = { name: "root", uid: 0, gid: 0, home: "/root" };
    assertEquals(await findUser("root"), root);
    assertEquals(await findUser(0), root);
    for (const key of ["0", "", "--help", "no such user", 4_000_000_000]) {
      assertEquals(await findUser(key), undefined, `${key}`);
    }
  },
});
