/** The index of sessions, `main.db`. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { renameDamagedIndex, type SessionEntry, SessionIndex } from "../../../lib/ledger/read/mod.ts";
import { runChild } from "../../helper/child.ts";
import { runSql, withLedgerPath } from "../../helper/ledger.ts";
import { fromRoot } from "../../helper/repo.ts";

function entry(id: string, more: Partial<SessionEntry> = {}): SessionEntry {
  return {
    id,
    name: "box",
    profile_id: "p",
    profile_revision: "1",
    created_at: "2026-01-01T00:00:00.000Z",
    ...more,
  };
}

Deno.test("an index keeps each session as it was put last, and lists the newest first", () =>
  withLedgerPath(async (path) => {
    const old = entry("c", { created_at: "2025-01-01T00:00:00.000Z", ended_at: "2025-02-01T00:00:00.000Z" });
    {
      const index = await SessionIndex.open(path);
      for (const each of [entry("b"), old, entry("a"), entry("d", { name: "other" })]) await index.put(each);
      await index.put(entry("b", { profile_revision: "2" }));
      index.close();
    }
    const index = await SessionIndex.open(path);
    const b = entry("b", { profile_revision: "2" });
    assertEquals(await index.list(), [entry("a"), b, entry("d", { name: "other" }), old]);
    assertEquals(await index.list(2), [entry("a"), b]);
    assertEquals([await index.get("c"), await index.get("x")], [old, undefined]);
    assertEquals([await index.findByName("box"), await index.findByName("x")], ["a", undefined]);
    assertEquals(await index.findEndedBefore("2025-02-01T00:00:00.001Z"), ["c"]);
    assertEquals(await index.findEndedBefore(old.ended_at!), []);
    await index.remove("c");
    assertEquals((await index.list()).map(({ id }) => id), ["a", "b", "d"]);
    index.close();
  }));

Deno.test("an index tells who and which agent a session is of, after its end too, and forgets it with the session", () =>
  withLedgerPath(async (path) => {
    const index = await SessionIndex.open(path);
    const made = entry("a", { user: "ada", device: "lab", client: "sbx/1.0", agent: "claude" });
    await index.put(made);
    await index.put(entry("a", { ended_at: "2026-01-02T00:00:00.000Z" }));
    assertEquals(await index.get("a"), { ...made, ended_at: "2026-01-02T00:00:00.000Z" });
    await index.remove("a");
    await index.put(entry("a"));
    assertEquals(await index.list(), [entry("a")]);
    index.close();
  }));

Deno.test("an index lists a thousand sessions unless more are requested", () =>
  withLedgerPath(async (path) => {
    const index = await SessionIndex.open(path);
    await runSql(
      path,
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001)
         INSERT INTO sessions SELECT 's' || i, 'n', 'p', '1', '2026', NULL FROM n`,
    );
    assertEquals([(await index.list()).length, (await index.list(2000)).length], [1000, 1001]);
    index.close();
  }));

Deno.test("failures of an index say what happened to which file", () =>
  withLedgerPath(async (path) => {
    const failure = async (open: () => Promise<unknown>) => {
      const { code, message, hint } = await assertRejects(open, SbxError);
      return [code, message, hint];
    };
    const index = await SessionIndex.open(path);
    await runSql(path, "DROP TABLE sessions");
    assertEquals(await failure(() => index.list()), [
      "ledger.unavailable",
      `the index of sessions ${path} cannot be used`,
      "check the permissions of the file and of its folder",
    ]);
    index.close();
    const text = `${path}.text`;
    await Deno.writeTextFile(text, "no database\n".repeat(400));
    const damaged = ["index.damaged", `the index of sessions ${text} is damaged`, undefined];
    assertEquals(await failure(() => SessionIndex.open(text)), damaged);
  }));

Deno.test("a damaged index is renamed with its log files", () =>
  withLedgerPath(async (path) => {
    for (const part of ["", "-wal"]) await Deno.writeTextFile(path + part, `content${part}`);
    const renamed = await renameDamagedIndex(path);
    assert(/\/session\.db\.damaged-[0-9TZ-]+$/.test(renamed), renamed);
    for (const part of ["", "-wal"]) {
      assertEquals(await Deno.readTextFile(renamed + part), `content${part}`);
    }
    const names = await Array.fromAsync(Deno.readDir(dirname(path)), ({ name }) => name);
    assertEquals(names.length, 2);
    // Anything but a missing file is a failure.
    await assertRejects(() => renameDamagedIndex(`${renamed}/below`), Deno.errors.NotADirectory);
  }));

Deno.test("an index without room for its log's own index is on a full disk", () =>
  withLedgerPath(async (path) => {
    const program = `
      const { SessionIndex } = await import("./lib/ledger/read/mod.ts");
      await SessionIndex.open(Deno.args[0]).catch(({ code, message }) => console.log(code, message));`;
    // Files of 16 kB: a page of the database fits, and no index of a log.
    const limited = `trap '' XFSZ; ulimit -f 16; exec "$@"`;
    const deno = [Deno.execPath(), "eval", "--quiet", program, path];
    const { stdout } = await runChild("bash", { args: ["-c", limited, "bash", ...deno], cwd: fromRoot("") });
    assertEquals(
      new TextDecoder().decode(stdout),
      `ledger.unavailable the index of sessions ${path} cannot be used: its disk is full\n`,
    );
  }));
