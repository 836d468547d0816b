/** A devcontainer of an image alone: its user owns the repository, which goes in and comes back. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { home } from "../../lib/base/home/mod.ts";
import { resolveAssets } from "../../lib/release/asset/mod.ts";
import { gitOk } from "../helper/git.ts";
import { Registry, writeBootableImage } from "../helper/oci.ts";
import { Sbx } from "../helper/sbx.ts";

Deno.test({
  name: "a repository belongs to the remote user, who commits; diff, pull and push leave it to that user",
  // The owners of the image's files need root.
  ignore: Deno.uid() !== 0,
  async fn() {
    const root = await Deno.makeTempDir({ prefix: "sbx-devcontainer-" });
    const sbx = await Sbx.make();
    await using registry = await Registry.start();
    try {
      const { rootfs } = await resolveAssets(home({ get: (name) => sbx.env[name] }), currentArch());
      await writeBootableImage(join(root, "image"), rootfs.path, [
        { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n" },
        { name: "etc/group", content: "root:x:0:\napp:x:1000:\n" },
        { name: "home/app/", uid: 1000, gid: 1000 },
      ], { Labels: { "devcontainer.metadata": JSON.stringify([{ remoteUser: "app" }]) } });
      const image = await registry.push(join(root, "image"), "team/app:v1");
      const dir = join(root, "app");
      await Deno.mkdir(dir);
      const devcontainer = { image, postCreateCommand: "id -un >/tmp/who", postAttachCommand: "sleep 3600" };
      await Deno.writeTextFile(join(dir, ".devcontainer.json"), JSON.stringify(devcontainer));
      await gitOk(dir, "init", "-q", "-b", "main");
      await gitOk(dir, "add", ".");
      await gitOk(dir, "commit", "-q", "-m", "first");
      await sbx.ok("create", "dev", "--from-dir", dir, "--devcontainer");

      const run = (line: string) => sbx.ok("exec", "dev", "-c", line);
      const commit = async (name: string) => {
        await run(
          `echo ${name} >${name} && git add . && git -c user.name=a -c user.email=a@b commit -qm ${name}`,
        );
      };
      const foreign = () => run("find . ! -user app | wc -l");
      assertEquals(await run("cat /tmp/who; pwd; git status --porcelain"), "app\n/workspaces/app\n");
      await commit("one");
      assertStringIncludes(await sbx.ok("diff", "dev"), "one");
      assertEquals(await foreign(), "0\n");
      await commit("two");
      await sbx.ok("pull", "dev");
      assertEquals(await foreign(), "0\n");
      await run("git reset -q --hard HEAD~2");
      await Deno.writeTextFile(join(dir, "host"), "of the host\n");
      await gitOk(dir, "add", ".");
      await gitOk(dir, "commit", "-q", "-m", "host");
      await sbx.ok("push", dir, "dev");
      assertEquals([await foreign(), await run("cat host")], ["0\n", "of the host\n"]);
      await commit("three");

      // An interrupt ends the command, not the VM.
      const attaching = new Deno.Command(join(Deno.cwd(), "bin/sbx"), {
        args: ["devcontainer", "dev", "postAttachCommand"],
        env: sbx.env,
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }).spawn();
      const running = () => sbx.ok("exec", "--user", "root", "dev", "-c", "pgrep -fc '^sleep 3600' || :");
      const log = new Response(attaching.stderr).text();
      while (await running() === "0\n");
      attaching.kill("SIGINT");
      assert((await attaching.status).code !== 0);
      assertStringIncludes(await log, "sbx devcontainer dev postAttachCommand");
      while (await running() !== "0\n");

      // A fork has the settings, too.
      const { devcontainer: settings } = JSON.parse(await sbx.ok("info", "dev", "--json"));
      assertEquals([settings.user, settings.folder], ["app", "/workspaces/app"]);
      await sbx.ok("stop", "dev");
      await sbx.ok("fork", "dev", "copy");
      assertEquals(JSON.parse(await sbx.ok("info", "copy", "--json")).devcontainer, settings);
      assertEquals(await sbx.ok("exec", "copy", "-c", "id -un; cat three"), "app\nthree\n");
    } finally {
      await sbx.dispose();
      await Deno.remove(root, { recursive: true });
    }
  },
});
