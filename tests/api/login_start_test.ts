/**
 * The setting app.start_service_at_login, with the real CLI and service: what it writes starts the service.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { eventually } from "../helper/sbx.ts";

Deno.test("a login starts the service while the setting says so", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-login-" });
  const env = {
    HOME: dir,
    SBX_HOME: join(dir, "home"),
    XDG_CONFIG_HOME: join(dir, ".config"),
    SBX_GATEWAY_PORT: "0",
  };
  const sbx = async (...args: string[]) => {
    const { code, stdout, stderr } = await runChild(fromRoot("bin/sbx"), { args, env });
    const [out, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    // status exits with 1 where it has something to report.
    if (args[0] !== "status") assertEquals(code, 0, out + errors);
    return out;
  };
  const written = () => filesBelow(env.XDG_CONFIG_HOME);
  const set = (value: string) => sbx("settings", "set", "app.start_service_at_login", value);
  try {
    await sbx("start");
    assertEquals(await written(), []);
    await set("true");
    await eventually("it is written", async () => (await written()).length > 0);
    const [path] = await written();
    await sbx("stop");

    await eventually(
      "the service of before is gone",
      () => Deno.stat(join(env.SBX_HOME, "run/service.pid")).then(() => false, () => true),
    );
    const login = new Deno.Command("sh", {
      args: ["-c", commandOf(await Deno.readTextFile(path))],
      clearEnv: true,
      env: { HOME: dir, PATH: "/usr/bin:/bin" },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    await eventually(
      "it has a pid",
      () => Deno.stat(join(env.SBX_HOME, "run/service.pid")).then(() => true, () => false),
    );
    await sbx("start");
    assert(!(await sbx("status", "--json")).includes("start at login"));

    // What a person wrote in its place stays, and is an issue.
    await set("false");
    await eventually("it is removed", async () => (await written()).length === 0);
    await Deno.writeTextFile(path, "mine\n");
    await set("true");
    await eventually(
      "it is an issue",
      async () => (await sbx("status", "--json")).includes("start at login"),
    );
    assertStringIncludes(await sbx("status", "--json"), "was not written by sbx");
    assertEquals(await Deno.readTextFile(path), "mine\n");
    await sbx("stop");
    await login.status;
  } finally {
    await sbx("stop");
    await Deno.remove(dir, { recursive: true });
  }
});

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
  const found = await Promise.all(entries.map(async ({ name, isFile, isDirectory }) => {
    const path = join(folder, name);
    // A file that is being written begins with a dot.
    return isFile && !name.startsWith(".") ? [path] : isDirectory ? await filesBelow(path) : [];
  }));
  return found.flat();
}

/** The command of a desktop entry or a unit, whose quotes are those of a shell for the paths of this test. */
function commandOf(text: string): string {
  const exec = /^Exec(?:Start)?=(.*)$/m.exec(text)![1];
  const variables = [...text.matchAll(/^Environment=(.*)$/gm)].map(([, pair]) => pair);
  return `exec env ${variables.join(" ")} ${exec}`;
}
