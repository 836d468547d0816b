/**
 * Settings, corp and profiles in the running product, seen from inside a guest.
 * One boot is shared by all steps.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";
import { API_KEY, BASHRC, CORP, PASSWORD, pinsOf, SSH_KEY, USER } from "./settings_world.ts";

Deno.test("settings, corp and a profile decide what a guest is", async (t) => {
  const corpDir = await Deno.makeTempDir({ prefix: "sbx-corp-" });
  const corpFile = join(corpDir, "corp.toml");
  const sbx = await Sbx.make({ env: { SBX_CORP_CONFIG: corpFile } });
  const settingsFile = join(sbx.home, "settings.toml");
  const profileDir = join(sbx.home, "profiles", "pinned");
  const obomFile = join(corpDir, "obom.cdx.json");
  await Deno.writeTextFile(corpFile, CORP);
  await Deno.writeTextFile(settingsFile, USER);
  await Deno.mkdir(profileDir, { recursive: true });
  const pins = await pinsOf(sbx.env.SBX_ASSETS_DIR, obomFile);
  const writeProfile = (text: string, pinned = pins) =>
    Deno.writeTextFile(
      join(profileDir, "profile.toml"),
      `id = "pinned"\nname = "Pinned"\ndescription = "Brings its own image."\nrevision = "1.2.0"\n${text}\n${pinned}`,
    );
  await writeProfile("[vm]\ncpu_count = 4\nram_gb = 2\nscratch_disk_size_gb = 2");
  const run = async (command: string, stdin?: string) =>
    (await sbx.api("POST", "/vms/pin/exec", { command, stdin })).body;
  try {
    await t.step("sbx-admin says whether a profile is right, and where it is not", async () => {
      const path = join(profileDir, "profile.toml");
      assertEquals((await sbx.run("sbx-admin", ["profile", "validate", path])).code, 0);
      const bad = join(corpDir, "pinned");
      await Deno.mkdir(bad);
      await Deno.writeTextFile(
        join(bad, "profile.toml"),
        (await Deno.readTextFile(path)).replace(/blake3:\w/, "blake3:"),
      );
      const { code, stdout } = await sbx.run("sbx-admin", [
        "profile",
        "validate",
        join(bad, "profile.toml"),
        "--json",
      ]);
      const report = JSON.parse(stdout);
      assertEquals([code, report.ok, report.problems.length], [1, false, 1]);
      assertStringIncludes(report.problems[0], "64 lower-case hex characters");
    });

    await t.step("a request that corp does not allow, or that cannot boot, makes nothing", async () => {
      await sbx.ok("start");
      const create = async (request: Record<string, unknown>) => {
        const { status, body } = await sbx.api("POST", "/vms/create", { profile_id: "pinned", ...request });
        return [status, body.code];
      };
      assertEquals(await create({ cpus: 2 }), [423, "settings.corp_locked"]);
      assertEquals(await create({ env: { LD_PRELOAD: "/x.so" } }), [400, "boot.invalid"]);
      assertEquals(await create({ profile_id: "nobody" }), [404, "profile.not_found"]);
      await writeProfile('min_sbx_version = "999.0.0"');
      assertEquals(await create({}), [409, "profile.incompatible"]);
      await writeProfile("", pins.replace(/(rootfs\.erofs"\n.*\n.*\nsize = )\d+/, "$11"));
      assertEquals(await create({}), [412, "assets.mismatch"]);
      await writeProfile("[vm]\ncpu_count = 4\nram_gb = 2\nscratch_disk_size_gb = 2");
      assertEquals(JSON.parse(await sbx.ok("list", "--json")).vms, []);
      assertEquals(await Array.fromAsync(Deno.readDir(join(sbx.home, "sessions"))), []);
    });

    await t.step("a VM boots with its profile's image and resources, and with corp's CPUs", async () => {
      await sbx.ok(
        "create",
        "pin",
        "--profile",
        "pinned",
        "-e",
        "GIT_AUTHOR_NAME=asked",
        "-e",
        "MINE=mine-as-asked",
      );
      const info = JSON.parse(await sbx.ok("info", "pin", "--json"));
      assertEquals([info.status, info.profile_id, info.cpus, info.ram_mb], ["Running", "pinned", 1, 2048]);
      const record = JSON.parse(sbx.read(`sessions/${info.id}/vm.json`));
      assertEquals([record.assets.version, record.profile_revision, record.scratch_gb], [
        "pinned 1.2.0",
        "1.2.0",
        2,
      ]);
      assertEquals((await run("nproc")).stdout, "1\n");
    });
    await t.step("its environment: corp's over the request's over the user's", async () => {
      const { stdout } = await run("env");
      const env = new Map(
        stdout.trimEnd().split("\n").map((line: string) => line.split(/=(.*)/s, 2) as [string, string]),
      );
      const names = [
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_NAME",
        "GIT_AUTHOR_EMAIL",
        "SBX_SSH_PUBLIC_KEY",
        "MINE",
        "LANG",
      ];
      assertEquals(names.map((name) => env.get(name)), [
        "Corp Build",
        "Corp Build",
        "ada@example.org",
        SSH_KEY,
        "mine-as-asked",
        "C.UTF-8",
      ]);
      assertEquals(
        (await run("git var GIT_AUTHOR_IDENT")).stdout.startsWith("Corp Build <ada@example.org>"),
        true,
      );
    });

    await t.step("its files are there with their mode, and the shell reads them", async () => {
      assertEquals(
        (await run("stat -c '%a %U' /root/.bashrc && cat /root/.bashrc")).stdout,
        `600 root\n${BASHRC}`,
      );
      assertEquals((await run("bash -ic greet 2>/dev/null")).stdout, "hi\n");
      assertEquals((await run("ls /root/.tmux.conf")).exit_code, 2, "a file without content is not made");
    });

    await t.step("no secret is anywhere in it: not in a file, an environment or a command line", async () => {
      // The text to look for goes in through stdin, so that the search itself holds it nowhere.
      const search = (text: string) =>
        run(
          "cat > /dev/shm/p; grep -rlaF -f /dev/shm/p /run /tmp /root /etc /var /opt /workspace /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; rm /dev/shm/p",
          text,
        );
      const control = (await search("mine-as-asked")).stdout;
      assert(/\/proc\/\d+\/environ/.test(control), `the search finds what is there: ${control}`);
      assertStringIncludes((await search("alias greet=")).stdout, "/root/.bashrc");
      for (const secret of [API_KEY, PASSWORD]) assertEquals((await search(secret)).stdout, "");
      const { id } = JSON.parse(await sbx.ok("info", "pin", "--json"));
      const kept = await Array.fromAsync(Deno.readDir(join(sbx.home, "sessions", id)));
      for (const { name, isFile } of kept.filter(({ name }) => name.endsWith(".json"))) {
        assert(isFile && !sbx.read(`sessions/${id}/${name}`).includes("never-in-a-guest"), name);
      }
    });

    await t.step("a locked setting is refused with 423, and nothing is written", async () => {
      const batch = { "vm.resources.retention_days": 20, "ledger.on_full": "pause" };
      const { status, body } = await sbx.api("PATCH", "/settings/edit", batch);
      assertEquals([status, body.code], [423, "settings.corp_locked"]);
      assertEquals(await Deno.readTextFile(settingsFile), USER);
      const { code, stderr } = await sbx.cli("settings", "set", "ledger.on_full", "pause");
      assertEquals(code, 1);
      assertStringIncludes(stderr, "ledger.on_full: locked by corp");
    });

    await t.step("edits by hand, by CLI and of corp.toml show on /events at once", async () => {
      const socket = new WebSocket(`${sbx.base.replace("http", "ws")}/events?token=${sbx.token}`);
      const changed: string[][] = [];
      socket.onmessage = ({ data }) => {
        const { type, payload } = JSON.parse(data);
        if (type === "settings-changed") changed.push(payload.ids);
      };
      await new Promise((resolve) => socket.onopen = resolve);
      try {
        await Deno.writeTextFile(
          settingsFile,
          `${USER}[settings."vm.resources.retention_days"]\nvalue = 21\n`,
        );
        await eventually("the edit by hand is told", () => changed.length === 1);
        await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", "9");
        await eventually("the edit by CLI is told", () => changed.length === 2);
        await Deno.writeTextFile(corpFile, `${CORP}[settings."vm.resources.retention_days"]\nvalue = 30\n`);
        await eventually("the edit of corp.toml is told", () => changed.length === 3);
        assertEquals(changed, [["vm.resources.retention_days"], ["vm.resources.max_concurrent_vms"], [
          "vm.resources.retention_days",
        ]]);
        assertEquals(await sbx.ok("settings", "get", "vm.resources.retention_days"), "30\n");
        assertStringIncludes(await Deno.readTextFile(settingsFile), 'value = "ada@example.org"   # work');
      } finally {
        socket.close();
      }
    });

    await t.step("a corp.toml that breaks unlocks nothing, and the status says so", async () => {
      assertEquals((await sbx.api("GET", "/status")).body.ok, true);
      await Deno.writeTextFile(corpFile, "[settings\n");
      await eventually(
        "it is noticed",
        async () => (await sbx.api("GET", "/corp/info")).body.status === "last_good",
      );
      assertEquals((await sbx.api("PATCH", "/settings/edit", { "ledger.on_full": "pause" })).status, 423);
      const { code, stdout } = await sbx.cli("status");
      assertEquals(code, 1);
      assertStringIncludes(stdout, `${corpFile} IS BROKEN`);
      assertStringIncludes(await sbx.ok("corp", "info"), "ledger.on_full");
      await Deno.writeTextFile(corpFile, CORP);
      await eventually("it is good again", async () => (await sbx.api("GET", "/status")).body.ok);
    });

    await t.step("the CLI shows what is locked, why a setting is as it is, and the profiles", async () => {
      assertStringIncludes(await sbx.ok("settings", "list"), "locked by corp");
      assert(!(await sbx.ok("settings", "list")).includes(API_KEY));
      const explained = await sbx.ok("settings", "explain", "repository.git.identity.author_name");
      assertStringIncludes(explained, `${corpFile}:3`);
      assertStringIncludes(explained, `${settingsFile}:3`);
      await sbx.ok("settings", "reset", "vm.resources.max_concurrent_vms");
      assertEquals(await sbx.ok("settings", "get", "vm.resources.max_concurrent_vms"), "10\n");
      const list = await sbx.ok("profile", "list");
      for (const id of ["code", "co-work", "pinned"]) assertStringIncludes(list, id);
      assertStringIncludes(await sbx.ok("profile", "info", "pinned"), "obom.cdx.json");
      assertEquals((await sbx.cli("corp", "validate", corpFile)).code, 0);
      const bad = join(corpDir, "bad.toml");
      await Deno.writeTextFile(bad, '[settings."appearance.theme"]\nvalue = "pink"\n');
      const { code, stderr } = await sbx.cli("corp", "validate", bad);
      assertEquals(code, 1);
      assertStringIncludes(stderr, `${bad}:2`);
    });

    await t.step(
      "the OBOM is served while it is what the profile says, and 412 when it is damaged",
      async () => {
        const response = await sbx.fetch("/profiles/pinned/obom");
        assertEquals(response.status, 200);
        assertEquals((await response.json()).bomFormat, "CycloneDX");
        const { profile, obom } = (await sbx.api("GET", "/profiles/pinned/info")).body;
        assertEquals([profile.source, obom.route], ["user", "/profiles/pinned/obom"]);
        await Deno.writeTextFile(obomFile, " ", { append: true });
        const { status, body } = await sbx.api("GET", "/profiles/pinned/obom");
        assertEquals([status, body.code], [412, "assets.mismatch"]);
        assertEquals((await sbx.api("GET", "/profiles/code/obom")).status, 200, "the installed image's");
      },
    );

    await t.step("the limit of VMs is a setting; a VM that runs keeps what it was booted with", async () => {
      await sbx.ok("settings", "set", "vm.resources.max_concurrent_vms", "1");
      const { status, body } = await sbx.api("POST", "/vms/create", { profile_id: "pinned" });
      assertEquals([status, body.code], [409, "vm.limit"]);
      await writeProfile("[vm]\nram_gb = 3");
      assertEquals((await sbx.api("GET", "/vms/pin/info")).body.ram_mb, 2048);
      await sbx.ok("delete", "pin");
    });

    await t.step("the API document and the gateway know these routes", async () => {
      const { paths } = (await sbx.api("GET", "/openapi.json")).body;
      for (
        const path of [
          "/settings/info",
          "/settings/edit",
          "/settings/explain/{id}",
          "/corp/info",
          "/profiles/list",
        ]
      ) {
        assert(paths[path], path);
      }
    });
  } finally {
    await sbx.dispose();
    await Deno.remove(corpDir, { recursive: true });
  }
});
