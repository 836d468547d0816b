/** Commands of the real CLI through a real gateway, with a small upstream in place of the service. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import type { ChainHeads } from "../../lib/ledger/mod.ts";
import { readHeads, readHeadsAt } from "../../lib/ledger/read/mod.ts";
import { limitChild } from "../helper/child.ts";
import { writeEvents } from "../helper/ledger.ts";
import { main, OLD_SESSION, Place } from "./cli_harness.ts";

const options = { sanitizeResources: false, sanitizeOps: false };

Deno.test("cli: run and exec pass bytes, exit codes and input through", options, async (t) => {
  await using place = await Place.make();
  await t.step("streams, and exits with the program's code", async () => {
    for (const args of [["run", "--", "x"], ["exec", "demo", "--", "x"]]) {
      const { code, stdout, stderr } = await place.sbx(args);
      assertEquals([code, stdout], [7, "\0\ufffd\n"]);
      assertMatch(stderr, /err\n$/);
    }
  });
  await t.step("-v shows the boot and the events, without control characters", async () => {
    const { stderr } = await place.sbx(["run", "-v", "--", "x"]);
    assertMatch(stderr, /qemu, tcg[^]*kernel\s+12[^]*process\.exec\s+exec true�\[2J/);
  });
  await t.step("--json prints the whole result", async () => {
    const { code, stdout } = await place.sbx(["run", "--json", "--", "x"]);
    assertEquals([code, JSON.parse(stdout).stdout], [7, "out"]);
  });
  await t.step("input, environment and command line arrive", async () => {
    const request = ["exec", "-i", "-e", "A=b", "demo", "-c", "cat | x"];
    const { code, stdout } = await place.sbx(request, { stdin: "héllo" });
    assertEquals([code, stdout], [7, "héllo"]);
    assertEquals(place.bodies.at(-1), { command: "cat | x", env: { A: "b" } });
    const whole = await place.sbx([...request, "--json"], { stdin: "héllo" });
    assertEquals([whole.code, JSON.parse(whole.stdout).stdout], [7, "out"]);
    const { command, env, stdin } = place.bodies.at(-1)!;
    assertEquals([command, env, stdin], ["cat | x", { A: "b" }, btoa("h\xc3\xa9llo")]);
  });
  await t.step("125 when sbx fails, 2 for invalid arguments", async () => {
    const failed = await place.sbx(["run", "--", "bad"]);
    assertEquals([failed.code, /sbx: it broke/.test(failed.stderr)], [125, true]);
    assertEquals((await place.sbx(["run", "--", "broken"])).code, 125);
    assertEquals((await place.sbx(["exec", "nobody", "--", "x"])).code, 125);
    assertEquals((await place.sbx(["run", "--timeout", "soon", "--", "x"])).code, 2);
    assertEquals((await place.sbx(["nonsense"])).code, 2);
  });
});

Deno.test("cli: reports, tables and errors", options, async (t) => {
  const rule = { id: "no", action: "block", match: 'http.request.host ==\n"a.example"', priority: 10 };
  const project = [{
    id: "no-paste",
    action: "ask",
    match: 'http.request.host == "b.example\u001b[2J"',
    line: 3,
  }];
  await using place = await Place.make({
    "/profiles/code/enforcement/rules/list": {
      rules: [{ ...rule, layer: "profile" }],
      lints: [],
      vms: [{ id: "x", name: "dev", revision: "1.0.0", outdated: false, project }],
    },
  });
  await t.step("policy list has the rules of project files, with file and line", async () => {
    const { stdout } = await place.sbx(["policy", "list"]);
    assertMatch(stdout, /profile +10 +block +no +http\.request\.host == "a\.example"\n/);
    assertMatch(
      stdout,
      /dev +\.sbx\.toml:3 +ask +project\.no-paste +http\.request\.host == "b\.example�\[2J"\n/,
    );
  });
  await t.step("all sessions: in pages, in local time, with an exit code for scripts", async () => {
    const all = await place.sbx(["events", "--all", "--since", "2026-11-22T10:30Z", "--fail-on-match"]);
    assertEquals(all.code, 4);
    assertMatch(all.stdout, /^TIME \(UTC[^]*\n[\d: .-]{23} {2}web�\[2J [^]*\n[\d: .-]{23} {2}db /);
    assertEquals(place.queries.at(-1)?.since, String(Date.UTC(2026, 10, 22, 10, 30)));
    const lines = await place.sbx(["net", "--profile", "dev", "--json"]);
    assertEquals([lines.code, lines.stdout.trim().split("\n").map((line) => JSON.parse(line).vm)], [
      0,
      ["web\x1b[2J", "db"],
    ]);
    assertEquals(place.queries.at(-1)?.network, "true");
    const findings = await place.sbx(["findings", "--vm", "web", "--severity", "high", "--fail-on-match"]);
    assertEquals([findings.code, findings.stdout], [1, "no findings\n"]);
    assertMatch(findings.stderr, /session lost cannot be read/);
    assertEquals((await place.sbx(["models", "demo"])).code, 0);
    assertEquals(place.queries.at(-1)?.vm, "demo");
    for (const call of [["events"], ["events", "demo", "--all"], ["events", "--all", "--follow"]]) {
      assertEquals((await place.sbx(call)).code, 2, call.join(" "));
    }
    assertMatch((await place.sbx(["events", "--all", "--since", "+9s"])).stderr, /invalid value/);
    assertMatch((await place.sbx(["findings", "--sevrity", "high"])).stderr, /--severity/);
  });
  await t.step(
    "all sessions: counts, asks that are over, answers in force, sessions that have ended",
    async () => {
      const counts = await place.sbx(["events", "--all", "--by", "hour"]);
      assertMatch(
        counts.stdout,
        /^TIME \(UTC\) +EVENTS +DENIED[^\n]*\n1970-01-01 00:00 +8 +2 +█{40} +http 8\n1970-01-01 01:00 +2 +1 +█{10} +http 2\n/,
      );
      assertEquals(place.queries.at(-1)?.step, "900000");
      assertEquals((await place.sbx(["events", "demo", "--by", "minute", "--json"])).code, 0);
      assertEquals([place.queries.at(-1)?.step, place.queries.at(-1)?.vm], ["60000", "demo"]);
      const history = await place.sbx(["asks", "--history", "--vm", "demo", "--status", "allowed"]);
      assertMatch(
        history.stdout,
        /ask-1 +demo +2026-01-01 00:00:05.000 +allowed +5 min +ann +http.request +POST .*�/,
      );
      assertMatch(history.stderr, /only the newest 1/);
      assertEquals([place.queries.at(-1)?.vm, place.queries.at(-1)?.status], ["demo", "allowed"]);
      const standing = await place.sbx(["asks", "--in-force"]);
      assertMatch(standing.stdout, /ask-1 +demo +allow +2026-01-01 00:05:05.000 +POSTs to it +posts +ann/);
      assertEquals([standing.code, /silent does not reply/.test(standing.stderr)], [1, true]);
      const withdrawn = await place.sbx(["asks", "--withdraw", "ask-1"]);
      assertEquals(
        [withdrawn.code, withdrawn.stdout],
        [0, "withdrew the answer to ask-1 (allow): demo asks about POSTs to it again\n"],
      );
      assertEquals((await place.sbx(["asks", "--withdraw", "ask-1", "--in-force"])).code, 2);
      const past = await place.sbx(["sessions", "--past", "--profile", "code"]);
      assertMatch(past.stdout, /SESSION +NAME +PROFILE +AGENT +CREATED[^]*agent +code +claude +2026/);
      assertEquals([place.queries.at(-1)?.state, place.queries.at(-1)?.profile], ["past", "code"]);
      const folder = join(place.dir, "ledgers", OLD_SESSION);
      await Deno.mkdir(folder, { recursive: true });
      await writeEvents(join(folder, "session.db"), 3, [], OLD_SESSION);
      const states = JSON.stringify({ schema: "sbx.finding-states.v1", findings: {} });
      await Deno.writeTextFile(join(folder, "session.db.findings"), states);
      const kept = join(place.dir, "kept");
      const exported = ["sessions", "delete", OLD_SESSION, "--export", kept, "--yes"];
      assertEquals((await place.sbx(exported)).code, 0);
      const copy = join(kept, OLD_SESSION, "session.db");
      assertEquals(await Deno.readTextFile(`${copy}.findings`), states);
      assertMatch((await place.sbx(["verify", copy])).stdout, /valid, 3 events as recorded/);
      // A damaged record is copied, and not removed.
      await Deno.writeTextFile(join(folder, "session.db"), "damaged");
      const asked = place.queries.length;
      const bad = await place.sbx([
        "sessions",
        "delete",
        OLD_SESSION,
        "--export",
        join(place.dir, "bad"),
        "--yes",
      ]);
      assertEquals([bad.code, /nothing was removed/.test(bad.stderr)], [1, true], bad.stderr);
      assertEquals(place.queries.slice(asked).length, 1, "only the list was asked for");
      await Deno.remove(folder, { recursive: true });
      const removed = await place.sbx(["sessions", "delete", OLD_SESSION, "--yes"]);
      assertEquals([removed.code, removed.stdout], [
        0,
        `removed the record of ${OLD_SESSION} (old): 3 events\n`,
      ]);
      const byName = await place.sbx(["sessions", "delete", "old", "--yes"]);
      assertEquals([byName.code, /"old" is not the id/.test(byName.stderr)], [1, true]);
      for (
        const call of [["asks", "--history", "-f"], ["asks", "--vm", "demo"], [
          "events",
          "demo",
          "--by",
          "week",
        ]]
      ) {
        assertEquals((await place.sbx(call)).code, 2, call.join(" "));
      }
    },
  );
  await t.step(
    "report: a file that others cannot read, and that replaces a link and not its target",
    async () => {
      const target = join(place.dir, "target");
      await Deno.writeTextFile(target, "kept", { mode: 0o666 });
      const file = join(place.dir, "report.html");
      await Deno.symlink(target, file);
      const { code, stdout } = await place.sbx(["report", "--since", "2026-11-22T10:30Z", "-o", file]);
      assertEquals([code, stdout, await Deno.readTextFile(target)], [0, "", "kept"]);
      const { mode, isFile } = await Deno.lstat(file);
      assertEquals([isFile, mode! & 0o777], [true, 0o600]);
      assertMatch(await Deno.readTextFile(file), /^<!doctype html>/);
      assertMatch((await place.sbx(["report"])).stdout, /^Report from the first record to [^]*WHAT LEFT\n/);
      assertEquals(JSON.parse((await place.sbx(["report", "--json"])).stdout).schema, "sbx.report.v1");
    },
  );
  await t.step("list, info, logs, events", async () => {
    assertMatch(
      (await place.sbx(["list"])).stdout,
      /NAME .*\ndemo {2}Running {2}code {5}2 {5}512 MiB {2}4.0 of 20 GiB {2}yes {9}exec stop delete\n/,
    );
    assertMatch((await place.sbx(["info", "demo"])).stdout, /workspace {3}\/host\/workspace[^]*kernel {2}12/);
    assertEquals(
      (await place.sbx(["logs", "demo", "--tail", "1"])).stdout,
      "==> console.log (9 bytes, truncated to its end) <==\nt�[31mwo\n",
    );
    assertEquals(JSON.parse((await place.sbx(["events", "demo", "--json"])).stdout).events.length, 2);
  });
  await t.step("create sends its options and prints the next steps", async () => {
    const { code, stdout } = await place.sbx(["create", "demo", "--rm", "--cpus", "2", "-e", "A=1"]);
    assertEquals([code, /qemu, tcg[^]*sbx exec/.test(stdout)], [0, true]);
    assertEquals(place.bodies.at(-1), { name: "demo", cpus: 2, persistent: false, env: { A: "1" } });
  });
  await t.step("an API error is a message and a hint, or JSON on stderr", async () => {
    const { code, stdout, stderr } = await place.sbx(["info", "nobody"]);
    assertEquals([code, stdout, stderr], [1, "", "sbx: no VM is called that\nsbx list\n"]);
    const json = await place.sbx(["info", "nobody", "--json"]);
    assertEquals(JSON.parse(json.stderr), {
      error: "no VM is called that",
      code: "vm.not_found",
      hint: "sbx list",
    });
  });
  await t.step("delete continues after a failure; purge --all requires --yes", async () => {
    const { code, stdout, stderr } = await place.sbx(["delete", "nobody", "demo"]);
    assertEquals([code, stdout, stderr], [1, "deleted demo\n", "sbx: no VM\n"]);
    assertEquals((await place.sbx(["delete"])).code, 2);
    assertEquals((await place.sbx(["delete", "demo", "--all", "--yes"])).code, 2);
    const unasked = await place.sbx(["delete", "--all"]);
    assertMatch(unasked.stderr, /needs a confirmation[^]*sbx delete --all --yes/);
    assertEquals((await place.sbx(["delete", "--all", "--yes"])).stdout, "deleted demo\n");
    assertMatch((await place.sbx(["start", "--all"])).stdout, /^sbx is already running/);
    assertEquals((await place.sbx(["purge", "--all"])).code, 2);
    assertEquals((await place.sbx(["purge", "--all", "--yes"])).stdout, "removed demo\n");
    assertEquals((await place.sbx(["purge"])).stdout, "no VMs to remove\n");
  });
  await t.step("completions list the VMs", async () => {
    const { stdout } = await place.sbx(["completions", "words", "--", "exec", "d"]);
    assertEquals(stdout, "demo\tRunning, code\n");
  });
  await t.step("shell copies both ways, and ends with the terminal", async () => {
    const { code, stdout } = await place.sbx(["shell", "demo", "--", "top", "-d 1"], { stdin: "typed" });
    assertEquals([code, stdout], [0, 'argv ["top","-d 1"]\r\ntyped']);
  });
});

Deno.test(
  "cli: shell on a terminal: raw keys, terminal size, ctrl-] leaves, and the terminal is restored",
  options,
  async () => {
    await using place = await Place.make();
    assertEquals((await place.sbx(["start"])).code, 0);
    const shell = `${Deno.execPath()} run -A --quiet ${main} shell demo`;
    const child = limitChild(new Deno.Command("script", {
      args: ["-qec", `stty rows 33 cols 111; ${shell}; echo "code $?"; stty -a`, "/dev/null"],
      env: { SBX_HOME: place.dir, SBX_RUN_DIR: place.home.runDir, NO_COLOR: "1" },
      stdin: "piped",
      stdout: "piped",
    }).spawn());
    const writer = child.stdin.getWriter();
    const decoder = new TextDecoder();
    let seen = "";
    for await (const chunk of child.stdout) {
      const before = seen;
      seen += decoder.decode(chunk, { stream: true });
      const first = (text: string) => seen.includes(text) && !before.includes(text);
      // A terminal that is not raw would not echo Ctrl-C and Ctrl-D.
      if (first("size {")) await writer.write(new TextEncoder().encode("\x1b[?1049h\x03typed"));
      if (first("typed")) await writer.write(new TextEncoder().encode("\x1d"));
    }
    await writer.close().catch(() => {});
    await child.status;
    assertMatch(seen, /size \{"cols":111,"rows":33\}/);
    // deno-lint-ignore no-control-regex
    assertMatch(seen, /\x03typed[^]*detached from the terminal[^]*\x1b\[\?1049l[^]*code 0/);
    assertMatch(seen, / icanon/);
    assertMatch(seen, / echo /);
  },
);

Deno.test("cli: cp both ways", options, async (t) => {
  await using place = await Place.make();
  const local = join(place.dir, "local");
  await Deno.mkdir(join(local, "in", "deep"), { recursive: true });
  await Deno.writeTextFile(join(local, "in", "deep", "b"), "bee");
  await Deno.writeTextFile(join(local, "in", "a"), "ay");
  await Deno.symlink("/etc/passwd", join(local, "in", "link"));
  const text = (path: string) => new TextDecoder().decode(place.files.get(path));

  await t.step("a folder up, with its links as links", async () => {
    const { code } = await place.sbx(["cp", join(local, "in"), "demo:"]);
    assertEquals([code, [...place.files.keys()].sort()], [0, ["in/a", "in/deep/b", "in/link"]]);
    assertEquals(text("in/link"), "/etc/passwd");
    assertEquals(text("in/deep/b"), "bee");
  });
  await t.step("a file up under another name, and into a folder", async () => {
    await place.sbx(["cp", join(local, "in", "a"), "demo:x/y"]);
    await place.sbx(["cp", join(local, "in", "a"), "demo:in"]);
    assertEquals(text("x/y"), "ay");
  });
  await t.step("a folder and a file down", async () => {
    assertEquals((await place.sbx(["cp", "demo:in", join(local, "out")])).code, 0);
    assertEquals(await Deno.readTextFile(join(local, "out", "deep", "b")), "bee");
    await place.sbx(["cp", "demo:/workspace/in/a", local]);
    assertEquals(await Deno.readTextFile(join(local, "a")), "ay");
  });
  await t.step("nothing is written outside the target", async () => {
    const outside = join(place.dir, "outside");
    await Deno.mkdir(outside);
    const escaped = await place.sbx(["cp", "demo:evil", join(local, "e")]);
    assertEquals([escaped.code, /outside the copied folder/.test(escaped.stderr)], [1, true]);
    await Deno.mkdir(join(local, "t"));
    await Deno.symlink(outside, join(local, "t", "sub"));
    const linked = await place.sbx(["cp", "demo:tree", `${local}/t/../t`]);
    assertEquals([linked.code, /skipped tree\/link/.test(linked.stderr)], [1, true], linked.stderr);
    await Deno.remove(join(local, "t", "tree"), { recursive: true });
    await Deno.mkdir(join(local, "t", "tree"));
    await Deno.symlink(outside, join(local, "t", "tree", "sub"));
    assertMatch(
      (await place.sbx(["cp", "demo:tree", join(local, "t")])).stderr,
      /exists and is not a folder/,
    );
    assertEquals(await Array.fromAsync(Deno.readDir(outside)), []);
    await Deno.symlink(join(outside, "victim"), join(local, "f"));
    await place.sbx(["cp", "demo:in/a", join(local, "f")]);
    assertEquals(await Array.fromAsync(Deno.readDir(outside)), []);
  });
  await t.step("a file larger than a request to the API may be goes up whole", async () => {
    const size = 10 * 1024 * 1024 + 1;
    await Deno.truncate(await touch(join(local, "big")), size);
    const { code, stderr } = await place.sbx(["cp", join(local, "big"), "demo:"]);
    assertEquals([code, place.files.get("big")?.length], [0, size], stderr);
  });
});

Deno.test(
  "cli: verify takes a VM's name, a session or a file, and reports a missing seal",
  options,
  async () => {
    await using place = await Place.make();
    const id = "00000000-0000-4000-8000-000000000002";
    const path = join(place.dir, "ledgers", id, "session.db");
    await Deno.mkdir(join(path, ".."), { recursive: true });
    await writeEvents(path, 3, [], id);
    for (const what of ["agent", id, path]) {
      const { code, stdout } = await place.sbx(["verify", what]);
      assertEquals([what, code, stdout], [
        what,
        0,
        `${path}: valid, 3 events as recorded\n` +
        (what === path
          ? ""
          : "The service has witnessed nothing of it: an older sbx made it, or the file of its heads is gone.\n") +
        "The seal is not signed: " +
        "anyone who can write both files could have changed the record.\n",
      ]);
    }
    await Deno.remove(`${path}.seal`);
    const open = await place.sbx(["verify", "agent"]);
    assertEquals(open.code, 0);
    assertMatch(open.stdout, /: valid, 3 events as recorded\n.*\nIt is NOT sealed, so its end is not proven/);
    assertEquals(JSON.parse((await place.sbx(["verify", "agent", "--json"])).stdout), {
      ok: true,
      path,
      events: 3,
      sealed: false,
    });
    const heads = await readHeads(path);
    const witness = (heads: ChainHeads) => ({
      schema: "sbx.ledger-witness.v1",
      session_id: id,
      at: new Date(0).toISOString(),
      heads,
    });
    const witnessed = async (heads: ChainHeads, what = id) => {
      await Deno.mkdir(join(place.dir, "record/heads"), { recursive: true });
      await Deno.writeTextFile(join(place.dir, "record/heads", `${id}.json`), JSON.stringify(witness(heads)));
      const { code, stdout } = await place.sbx(["verify", what]);
      return [code, stdout.split("\n")[code === 0 ? 1 : 0]];
    };
    assertEquals(await witnessed(heads), [0, "The service has witnessed it up to event 3."]);
    const { head_hash: one } = await readHeadsAt(path, { ...heads, events: 1 });
    assertEquals(await witnessed({ ...heads, events: 1, head_hash: one }, path), [
      0,
      "The service has witnessed it up to event 1. 2 events are newer than the end that the service saw.",
    ]);
    assertEquals(await witnessed({ ...heads, events: 4 }), [
      1,
      `${path}: INVALID after 3 valid events: it ends at event 3, and the service had witnessed event 4: ` +
      "its end was removed, or lost in a crash of this host",
    ]);
    const none = await place.sbx(["verify", "nobody"]);
    assertEquals([
      none.code,
      /not the name of a VM, the id of a session or a file[^]*sbx sessions/.test(none.stderr),
    ], [1, true]);
  },
);

async function touch(path: string): Promise<string> {
  await Deno.writeTextFile(path, "");
  return path;
}
