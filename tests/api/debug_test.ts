/** Reports of a home whose files belong to another user, by the real CLI. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";

const ID = "11111111-1111-4111-8111-111111111111";
const HIDDEN = "words that another user may not read";
/** A user without rights, which only root can be. */
const NOBODY = ["--reuid=65534", "--regid=65534", "--clear-groups", "env"];

/** Runs a program with the checkout at another place, where that user may enter: a clone may be in root's home. */
const MOUNTED = 'mount --bind "$1" "$2" && shift 2 && exec "$@"';

/** Files that nobody but their owner may read, and a folder that nobody else may enter. */
const FILES = [
  "logs/service.log",
  "settings.toml",
  "run/gateway.token",
  "run/service.pid",
  "profiles/mine/profile.toml",
  "credentials/store.json",
  `sessions/${ID}/vm.json`,
  `sessions/${ID}/logs/console.log`,
  "setup-state.json",
  "assets/manifest.json",
];

Deno.test({
  name: "a home of another user makes a report and a bundle that name what may not be read",
  ignore: Deno.uid() !== 0,
  async fn(t) {
    const dir = await Deno.makeTempDir();
    const [home, out, checkout] = ["home", "out", "checkout"].map((name) => join(dir, name));
    const sbx = async (...args: string[]) => {
      const env = [`SBX_HOME=${home}`, "HOME=/nowhere", "NO_COLOR=1"];
      const { code, stdout, stderr } = await runChild("unshare", {
        args: [
          ...["--mount", "--propagation", "private", "sh", "-c", MOUNTED, "sh", fromRoot(""), checkout],
          ...["setpriv", ...NOBODY, ...env, join(checkout, "bin/sbx"), ...args],
        ],
      });
      return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
    };
    try {
      await Deno.chmod(dir, 0o755);
      await Deno.mkdir(checkout);
      for (const path of FILES) {
        await Deno.mkdir(join(home, dirname(path)), { recursive: true });
        await Deno.writeTextFile(join(home, path), `${HIDDEN}\n`, { mode: 0o600 });
      }
      await Deno.mkdir(out);
      await Deno.chown(out, 65534, 65534);

      await t.step("sbx debug", async () => {
        // JSON, as the output is no terminal.
        const { code, stdout, stderr } = await sbx("debug");
        assertEquals(code, 0, stderr);
        const { status, setup, runtime, logs } = JSON.parse(stdout);
        const issues = status.issues.join("\n");
        assertMatch(issues, /home: \S+ belongs to another user/);
        assertMatch(issues, /credentials: \S+store\.json may not be read by this user/);
        assertMatch(issues, /settings: \S+settings\.toml: permission denied/);
        assertMatch(issues, /profiles: \S+mine.profile\.toml: permission denied/);
        assertMatch(issues, /assets: .*manifest\.json cannot be read/);
        assertMatch(issues, /service\.log cannot be read: permission denied/);
        assert(!issues.includes("failed (see"), issues);
        assertStringIncludes(setup.parse_error, "permission denied");
        assertEquals([runtime.service_pid_file.exists, logs[0].exists], [true, false]);
        assertEquals(status.defunct_sessions[0].name, `damaged-${ID.slice(0, 8)}`);
      });

      await t.step("sbx doctor and sbx status", async () => {
        const doctor = await sbx("doctor", "--json");
        assertEquals(doctor.code, 1, doctor.stderr);
        const { checks }: { checks: { state: string; remedy?: string }[] } = JSON.parse(doctor.stdout);
        assert(checks.every(({ state, remedy }) => state !== "failed" || remedy !== undefined));
        const status = await sbx("status");
        assertEquals(status.code, 1);
        assertMatch(status.stdout, /issue +home: \S+ belongs to another user/);
      });

      await t.step("sbx support-bundle, which has a reason in place of each file", async () => {
        const path = join(out, "b.tar.zst");
        const { code, stderr } = await sbx("support-bundle", "--session", ID, "--out", path);
        assertEquals(code, 0, stderr);
        const tar = new TextDecoder().decode(zstdDecompressSync(await Deno.readFile(path)));
        assert(!tar.includes(HIDDEN), "what may not be read");
        for (const file of ["service.log", "vm.json", "console.log"]) {
          assertMatch(tar, new RegExp(`${file.replace(".", "\\.")}[^\n]*([Pp]ermission denied)`), file);
        }
      });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test("sbx debug prints text on a terminal, and JSON there when it is asked for", async () => {
  const home = await Deno.makeTempDir();
  const printed = async (options: string) => {
    const { stdout } = await runChild("script", {
      args: ["-qec", `${fromRoot("bin/sbx")} debug ${options} 2>/dev/null`, "/dev/null"],
      env: { SBX_HOME: home, NO_COLOR: "1" },
    });
    return new TextDecoder().decode(stdout);
  };
  assertMatch(await printed(""), /^issue +the service does not answer/);
  assertEquals(JSON.parse(await printed("--json")).schema, "sbx.debug.v2");
  await Deno.remove(home, { recursive: true });
});
