import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { applyAutostart, autostartPlace } from "../../../lib/service/login_start.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { runChild } from "../../helper/child.ts";

const PERSON = "/home/ada";
const place = (
  { os = "linux", home = `${PERSON}/.sbx`, hasSystemd = true, env = {} }: {
    os?: typeof Deno.build.os;
    home?: string;
    hasSystemd?: boolean;
    env?: Record<string, string>;
  } = {},
) => autostartPlace({ os, home, hasSystemd, env: new Map(Object.entries({ HOME: PERSON, ...env })) });

Deno.test("autostart: each system has its place, and each home its file", () => {
  assertEquals(place(), {
    kind: "systemd",
    path: `${PERSON}/.config/systemd/user/sbx-at-login.service`,
    link: `${PERSON}/.config/systemd/user/default.target.wants/sbx-at-login.service`,
    other: `${PERSON}/.config/systemd/user/default.target.wants/sbx-service.service`,
  });
  assertEquals(
    place({ hasSystemd: false, env: { XDG_CONFIG_HOME: "/c" } })!.path,
    "/c/autostart/sbx-service.desktop",
  );
  assertEquals(place({ os: "darwin" })!.path, `${PERSON}/Library/LaunchAgents/sbx.service.plist`);
  const [one, two] = ["/a", "/b"].map((home) => place({ home })!.path);
  assertMatch(one, /sbx-at-login-[0-9a-f]{8}\.service$/);
  assertEquals(one === two, false);
  assertEquals(place({ env: { HOME: "" } }), undefined);
});

/** Paths with everything that the three forms have to escape. */
const STARTED = {
  program: `/opt/a b/"$x\`\\%n/sbx-service`,
  env: { SBX_HOME: "/h & <i>/%h", SBX_RUN_DIR: "/r" },
};

/** Writes the file of a system into a folder of the test's own. */
async function written(options: Parameters<typeof place>[0], started = STARTED) {
  const dir = await Deno.makeTempDir();
  const there = place({ ...options, env: { HOME: dir }, home: join(dir, ".sbx") })!;
  assertEquals(await applyAutostart(there, true, started), true);
  assertEquals(await applyAutostart(there, true, started), false);
  const text = await Deno.readTextFile(there.path);
  return { dir, there, text };
}

Deno.test("autostart: a unit of systemd, enabled", async () => {
  const { dir, there, text } = await written({});
  assertStringIncludes(text, '\nEnvironment="SBX_HOME=/h & <i>/%%h"\nEnvironment="SBX_RUN_DIR=/r"\n');
  assertStringIncludes(text, '\nExecStart="/opt/a b/\\"$$x`\\\\%%n/sbx-service"\n');
  assertStringIncludes(text, "\nKillMode=process\n");
  assertEquals(await Deno.readLink(there.link!), there.path);
  assertEquals((await Deno.stat(there.path)).mode! & 0o777, 0o644);
  assertEquals(await applyAutostart(there, false, STARTED), true);
  assertEquals(await Array.fromAsync(Deno.readDir(join(there.link!, ".."))), []);
  assertEquals(await applyAutostart(there, false, STARTED), false);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("autostart: an entry of a desktop's autostart runs as it is written", async () => {
  const { dir, there, text } = await written({ hasSystemd: false });
  // The string is read as files of desktop entries are, then its words as a shell reads double quotes.
  const exec = /^Exec=(.*)$/m.exec(text)![1].replace(/\\\\/g, "\\").replaceAll("%%", "%");
  const { stdout } = await runChild("sh", { args: ["-c", `printf '%s|' ${exec}`] });
  assertEquals(new TextDecoder().decode(stdout).split("|").slice(0, -1), [
    "env",
    "SBX_HOME=/h & <i>/%h",
    "SBX_RUN_DIR=/r",
    STARTED.program,
  ]);
  assertEquals(await applyAutostart(there, false, STARTED), true);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("autostart: an agent of launchd", async () => {
  const { dir, there, text } = await written({ os: "darwin" });
  assertEquals(text.split("\n").slice(4, 12), [
    "<dict>",
    "  <key>Label</key>",
    "  <string>sbx.service</string>",
    "  <key>ProgramArguments</key>",
    "  <array>",
    `    <string>${STARTED.program}</string>`,
    "  </array>",
    "  <key>EnvironmentVariables</key>",
  ]);
  assertStringIncludes(text, "<key>SBX_HOME</key>\n    <string>/h &amp; &lt;i&gt;/%h</string>\n");
  assertStringIncludes(text, "  <key>RunAtLoad</key>\n  <true/>\n");
  assertEquals(await applyAutostart(there, false, STARTED), true);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("autostart: touches no file of others, and says what keeps it from its own", async () => {
  const dir = await Deno.makeTempDir();
  const there = place({ env: { HOME: dir }, home: join(dir, ".sbx") })!;
  const units = join(there.path, "..");
  await Deno.mkdir(units, { recursive: true });
  await Deno.writeTextFile(there.path, "[Unit]\n");
  const failsWith = async (code: string, started = STARTED) =>
    assertEquals((await assertRejects(() => applyAutostart(there, true, started), SbxError)).code, code);
  await failsWith("autostart.conflict");
  assertEquals(await applyAutostart(there, false, STARTED), false);
  assertEquals(await Deno.readTextFile(there.path), "[Unit]\n");
  await Deno.remove(there.path);
  await failsWith("autostart.failed", { ...STARTED, program: "/a\nExecStart=/bin/evil" });

  // The package's unit, enabled by a person, starts the service already.
  assertEquals(await applyAutostart(there, true, STARTED), true);
  await Deno.symlink("/usr/lib/systemd/user/sbx-service.service", there.other!);
  assertEquals(await applyAutostart(there, true, STARTED), true);
  assertEquals(await Deno.stat(there.path).then(() => true, () => false), false);
  assertEquals(await Deno.lstat(there.other!).then(() => true, () => false), true);

  await Deno.remove(units, { recursive: true });
  await Deno.writeTextFile(units, "");
  await failsWith("autostart.failed");
  await Deno.remove(dir, { recursive: true });
});
