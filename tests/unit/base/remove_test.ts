import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { fromRoot } from "../../helper/repo.ts";

Deno.test({
  name:
    "a folder from which its user's permissions were taken is removed; what a link in it leads to stays as it is",
  // Root needs no permissions.
  ignore: Deno.uid() !== 0,
  async fn() {
    const dir = await Deno.makeTempDir();
    await Deno.chmod(dir, 0o777);
    // The checkout may be in a folder that only root enters.
    const [module, deno] = [join(dir, "remove.ts"), join(dir, "deno")];
    await Deno.copyFile(fromRoot("lib/base/home/remove.ts"), module);
    await Deno.copyFile(Deno.execPath(), deno);
    const script = `
      import { removeFolder } from ${JSON.stringify(module)};
      const [tree, other] = ["tree", "other"].map((name) => ${JSON.stringify(dir)} + "/" + name);
      for (const path of [tree + "/a/b/c", other]) Deno.mkdirSync(path, { recursive: true });
      Deno.writeTextFileSync(tree + "/a/b/c/f", "");
      Deno.symlinkSync(other, tree + "/a/b/link");
      for (const path of [tree + "/a/b/c", tree + "/a/b", tree + "/a"]) Deno.chmodSync(path, 0);
      Deno.chmodSync(other, 0o500);
      await removeFolder(tree);
      await removeFolder(tree);
    `;
    const { success, stderr } = await new Deno.Command("setpriv", {
      args: ["--reuid=65534", "--regid=65534", "--clear-groups", "env", `DENO_DIR=${dir}/cache`].concat(
        [deno, "eval", "--no-config", script],
      ),
    }).output();
    assertEquals([success, new TextDecoder().decode(stderr)], [true, ""]);
    assertEquals(Array.from(Deno.readDirSync(dir), ({ name }) => name).includes("tree"), false);
    assertEquals(Deno.statSync(join(dir, "other")).mode! & 0o777, 0o500);
    await Deno.remove(dir, { recursive: true });
  },
});
