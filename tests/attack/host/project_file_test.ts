/**
 * A repository's `.sbx.toml` on the way to a VM: what it asks for passes no one
 * who was not asked, and not corp.
 */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";

const ASKS = 'ports = [8080]\nprofile = "code"\n';

Deno.test("a project file gets nothing by a change after its approval, nor past corp", async () => {
  const dir = await Deno.realPath(await Deno.makeTempDir());
  const at = (name: string) => join(dir, name);
  const put = (text: string) => Deno.writeTextFile(at("repository/.sbx.toml"), text);
  const sbx = async (args: string[], corp?: string) => {
    const env: Record<string, string> = {
      HOME: dir,
      SBX_HOME: at("home"),
      SBX_GATEWAY_PORT: "0",
      SBX_ASSETS_DIR: at("assets"),
      DENO_DIR: Deno.env.get("DENO_DIR") ?? fromRoot(".deno/cache"),
    };
    if (corp !== undefined) env.SBX_CORP_CONFIG = at(corp);
    const { code, stderr } = await runChild(fromRoot("bin/sbx"), {
      args: [...args, "--json"],
      env,
      cwd: dir,
    });
    const last = new TextDecoder().decode(stderr).trim().split("\n").at(-1)!;
    return { code, problem: code === 0 ? undefined : JSON.parse(last).code };
  };
  const create = (corp?: string, ...more: string[]) =>
    sbx(["create", "dev", "--from-dir", "repository", ...more], corp);
  try {
    await Deno.mkdir(at("repository"));
    await Deno.writeTextFile(at("repository/file"), "content\n");
    await Deno.writeTextFile(at("narrow.toml"), '[corp.limits]\nproject_files = "narrow"\n');
    await Deno.writeTextFile(at("require.toml"), '[corp.limits]\nproject_files = "require"\n');
    await Deno.writeTextFile(at("broken.toml"), "[corp");

    assertEquals((await create("require.toml")).problem, "project.required");
    await put(ASKS);
    assertEquals((await create()).problem, "project.unapproved");
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(ASKS)))
      .toHex();
    await put(`${ASKS}\n`);
    assertEquals(
      (await sbx(["project", "approve", "repository", "--hash", hash])).problem,
      "project.unapproved",
    );
    await put(ASKS);
    assertEquals((await sbx(["project", "approve", "repository", "--hash", hash])).code, 0);
    await put(ASKS.replace("8080", "22"));
    assertEquals((await create()).problem, "project.unapproved");
    await put(ASKS);
    // It is approved, and corp's word is the last one: also of a file that cannot be read.
    for (const corp of ["narrow.toml", "broken.toml"]) {
      assertEquals((await create(corp)).problem, "project.forbidden", corp);
    }
    assertEquals((await create("require.toml", "--no-project")).problem, "project.required");
  } finally {
    await runChild(fromRoot("bin/sbx"), { args: ["stop"], env: { SBX_HOME: at("home"), HOME: dir } });
    await Deno.remove(dir, { recursive: true });
  }
});
