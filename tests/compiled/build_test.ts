/**
 * The compiled program: built, installed and used through its symlinks, up to real
 * VMs, and what it leaves behind.
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { runChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import { testRuntime } from "../../scripts/test_runtime.ts";
import { eventually, type Ran, Sbx } from "../helper/sbx.ts";

const ROLES = [
  "sbx-admin",
  "sbx-gateway",
  "sbx-mcp",
  "sbx-mcp-aggregator",
  "sbx-process",
  "sbx-service",
  "sbx-tray",
];

Deno.test("the compiled program does what the sources do", async (t) => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-compiled-" });
  const [built, prefix] = [join(dir, "built"), join(dir, "prefix")];
  const programs = join(prefix, "bin");
  const TMPDIR = join(dir, "tmp");
  await Deno.mkdir(TMPDIR);
  try {
    await t.step("make install builds it and puts it and its roles into a prefix", async () => {
      const runtime = await testRuntime();
      const args = ["--silent", "-C", fromRoot(""), "install", `OUT=${built}`, `PREFIX=${prefix}`];
      const made = await command("make", args, runtime);
      assertEquals(made.code, 0, made.stdout + made.stderr);
      for (const folder of [built, programs]) {
        assertEquals((await names(folder)).sort(), ["sbx", ...ROLES]);
        for (const role of ROLES) assertEquals(await Deno.readLink(join(folder, role)), "sbx");
      }
    });

    await t.step(
      "a runtime that cannot start the program fails the build, which keeps the program",
      async () => {
        const before = await Deno.stat(join(built, "sbx"));
        const args = ["--silent", "-C", fromRoot(""), "build", `OUT=${built}`];
        const { code, stderr } = await command("make", args, { DENORT_BIN: "/bin/true" });
        assertEquals(code, 2, stderr);
        assertStringIncludes(
          stderr,
          "build: the compiled program does not start\n  DENORT_BIN (/bin/true) must be",
        );
        assert(!stderr.includes("    at "), stderr);
        assertEquals((await Deno.stat(join(built, "sbx"))).ino, before.ino);
        assertEquals((await names(built)).sort(), ["sbx", ...ROLES]);
      },
    );

    await t.step("each role answers by its name and as a subcommand", async () => {
      const home = { SBX_HOME: join(dir, "home"), TMPDIR };
      const sbx = (name: string, ...args: string[]) => command(join(programs, name), args, home);
      const sources = await command(fromRoot("bin/sbx"), ["version"], home);
      const version = await sbx("sbx", "version");
      const withoutCommit = ({ stdout }: Ran) => stdout.split(",")[0].replace(/\(.*\)/, "");
      assertEquals(withoutCommit(version), withoutCommit(sources));
      const stamp = JSON.parse((await sbx("sbx", "version", "--json")).stdout);
      const commit = async (format: string) =>
        (await command("git", ["-C", fromRoot(""), "log", "-1", `--format=${format}`])).stdout.trim();
      assertEquals(stamp.build_hash.replace(/-dirty$/, ""), (await commit("%H")).slice(0, 12));
      assertEquals(Date.parse(stamp.build_time) / 1000, Number(await commit("%ct")));
      for (const role of ["admin", "gateway", "tray"]) {
        const byName = await sbx(`sbx-${role}`, "--help");
        assertEquals([byName.code, byName.stdout.includes(`sbx-${role}`)], [0, true], byName.stderr);
        assertEquals(await sbx("sbx", role, "--help"), byName);
      }
      for (const words of [["sbx-process"], ["sbx", "process"]]) {
        assertStringIncludes(
          (await sbx(words[0], ...words.slice(1))).stderr,
          "sbx-process is started by sbx-service",
        );
      }
      for (const words of [["sbx-service"], ["sbx", "service"]]) await serves(programs, words, home);
      await Deno.remove(home.SBX_HOME, { recursive: true });
    });

    await t.step("image build has the guest's programs in it, and fetches only their Deno", async () => {
      const out = join(dir, "image");
      const env = {
        SBX_HOME: join(dir, "home"),
        TMPDIR,
        npm_config_offline: "true",
        npm_config_cache: join(dir, "npm"),
      };
      const { code, stderr } = await command(join(programs, "sbx-admin"), ["image", "build", out], env);
      assertEquals(code, 1);
      assertMatch(stderr, /downloading @deno\/linux-\w+-glibc@[\d.]+ failed/);
      assertEquals((await names(dir)).filter((name) => name.includes("image")), []);
    });

    await t.step(
      "a real VM: create, exec, cp, a terminal, run after an update in its place, delete",
      async () => {
        const sbx = await Sbx.make({ programs, spare: false, env: { TMPDIR } });
        try {
          const shared = join(dir, "shared");
          await Deno.mkdir(shared);
          await Deno.writeTextFile(join(shared, ".env"), "KEY=secret-of-the-host\n");
          assertStringIncludes(await sbx.ok("create", "dev", "--live", shared), "dev: Running");
          const live = await sbx.cli(
            "exec",
            "dev",
            "-c",
            "cd /workspace/shared && >file && cat .env; mkdir .git",
          );
          assertEquals([live.code, live.stdout], [1, ""], "the guard of its file server is in the program");
          assertEquals((await names(shared)).sort(), [".env", "file"]);
          const { id, pid } = JSON.parse(await sbx.ok("info", "dev", "--json"));
          const program = await Deno.readLink(`/proc/${pid}/exe`);
          assertEquals(
            program,
            await Deno.realPath(join(programs, "sbx")),
            "its process is of the same build",
          );
          const ran = await sbx.cli("exec", "dev", "--", "sh", "-c", "echo out; echo err >&2; exit 7");
          assertEquals(ran, { code: 7, stdout: "out\n", stderr: "err\n" });
          await sbx.ok("cp", fromRoot("deno.json"), "dev:copy");
          assertEquals(
            await sbx.ok("exec", "dev", "--", "cat", "copy"),
            await Deno.readTextFile(fromRoot("deno.json")),
          );
          const events = (await sbx.api("GET", `/sessions/${id}/events`)).body.events;
          assert(events.length > 0, "its ledger, which is a native library, has the events");

          const socket = new WebSocket(`${sbx.base.replace("http", "ws")}/terminal/${id}?token=${sbx.token}`);
          socket.onopen = () => socket.send(new TextEncoder().encode("exit\n"));
          await eventually("the terminal's shell has exited", () => socket.readyState === WebSocket.CLOSED);

          await Deno.copyFile(join(built, "sbx"), join(programs, "new"));
          await Deno.rename(join(programs, "new"), join(programs, "sbx"));
          assertEquals(
            await sbx.ok("run", "--", "echo", "by the service of the old file"),
            "by the service of the old file\n",
          );

          await sbx.ok("delete", "dev");
          await eventually("nothing of the VM is left", async () => (await sbx.left(id)).length === 0);
          assertEquals(await names(join(sbx.home, "sessions")), []);
        } finally {
          await sbx.dispose();
        }
        await eventually(
          "nothing of sbx runs any more",
          async () => (await sbx.pids("", programs)).length === 0,
        );
        // Deno unpacks native libraries under names made of their hashes, and uses them again.
        const own = `sbx-${Deno.uid()}`;
        assertEquals(await names(TMPDIR), [own]);
        assertEquals((await Deno.stat(join(TMPDIR, own))).mode! & 0o777, 0o700);
        assertEquals((await names(join(TMPDIR, own))).filter((name) => !/^sbx\d+\.node$/.test(name)), []);
      },
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

/** Starts the service, which must serve on its socket under its own name, and end well when it is told to. */
async function serves(
  programs: string,
  [name, ...args]: string[],
  env: { SBX_HOME: string; TMPDIR: string },
): Promise<void> {
  const service = new Deno.Command(join(programs, name), { args, env, stdin: "null" }).spawn();
  const path = join(env.SBX_HOME, "run/service.sock");
  const pidFile = join(env.SBX_HOME, "run/service.pid");
  try {
    await eventually(
      "the service has written its pid",
      async () => await Deno.readTextFile(pidFile).catch(() => "") === `${service.pid}\n`,
    );
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
    const answer = await fetch("http://service/version", { client });
    assertEquals(Object.keys(await answer.json()).includes("version"), true);
    client.close();
  } finally {
    service.kill("SIGTERM");
  }
  assertEquals((await service.status).code, 0);
  assertEquals(await Deno.stat(pidFile).catch(() => "gone"), "gone");
}

/** Time limit of one command in `ms`: some of them build images. */
const BUILD_LIMIT_MS = 1_800_000;

async function command(program: string, args: string[], env: Record<string, string> = {}): Promise<Ran> {
  const options = { args, env: { NO_COLOR: "1", ...env } };
  const { code, stdout, stderr } = await runChild(program, options, BUILD_LIMIT_MS);
  return { code, stdout: new TextDecoder().decode(stdout), stderr: new TextDecoder().decode(stderr) };
}

async function names(dir: string): Promise<string[]> {
  return await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
}
