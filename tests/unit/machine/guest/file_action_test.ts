/** Files of the guest, as its agent reads and writes them for the host. */
import { assert, assertEquals } from "@std/assert";
import { FileAction } from "../../../../cmd/guest/pty_agent/guest_file.ts";

const encoder = new TextEncoder();

async function text(source: FileAction["stdout"]): Promise<string> {
  let all = "";
  const chunk = new Uint8Array(10);
  for (let read = await source.read(chunk); read !== null; read = await source.read(chunk)) {
    all += new TextDecoder().decode(chunk.subarray(0, read));
  }
  return all;
}

/** Runs an action. @returns its output, its error's code and its exit code */
async function act(words: string[], input?: string): Promise<[string, string, number]> {
  const action = new FileAction(words);
  const given = input === undefined
    ? Promise.resolve()
    : action.stdin.write(encoder.encode(input)).catch(() => {}).then(() => action.stdin.close());
  const [out, error, { code }] = await Promise.all([
    text(action.stdout),
    text(action.stderr),
    action.status,
    given,
  ]);
  return [out, error, code];
}

async function inFolder(work: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await work(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("a file is written whole with its mode, read, and found by stat and in a listing", () =>
  inFolder(async (dir) => {
    const path = `${dir}/new/deep/a file`;
    assertEquals(await act(["write", path, "750", "11"], "hello world"), ["", "", 0]);
    assertEquals(await Deno.readTextFile(path), "hello world");
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o750);
    assertEquals(await act(["read", path]), ["hello world", "", 0]);
    const [stat] = await act(["stat", path]);
    assertEquals(JSON.parse(stat), { type: "file", size: 11, mode: "750" });
    assertEquals(await act(["link", `${dir}/new/link`, "/etc/passwd"]), ["", "", 0]);
    assertEquals(await Deno.readLink(`${dir}/new/link`), "/etc/passwd");
    assertEquals(await act(["folder", `${dir}/new/empty`]), ["", "", 0]);
    const { entries } = JSON.parse((await act(["list", dir, "32"]))[0]);
    assertEquals(entries.map(({ path, type }: { path: string; type: string }) => `${path} ${type}`), [
      "new directory",
      "new/deep directory",
      "new/deep/a file file",
      "new/empty directory",
      "new/link symlink",
    ]);
    const rest = JSON.parse((await act(["list", dir, "32", "new/deep"]))[0]).entries;
    assertEquals(rest[0].path, "new/deep/a file");
  }));

Deno.test("a file that came in part is not written, and the one before stays", () =>
  inFolder(async (dir) => {
    const path = `${dir}/kept`;
    await Deno.writeTextFile(path, "before");
    assertEquals(await act(["write", path, "644", "100"], "half"), ["", "file.conflict", 1]);
    assertEquals(await act(["write", path, "644", "2"], "too much"), ["", "file.conflict", 1]);
    assertEquals(await Deno.readTextFile(path), "before");
    assertEquals(Array.from(Deno.readDirSync(dir), ({ name }) => name), ["kept"]);
    assertEquals(await act(["write", path, "600", "0"], ""), ["", "", 0]);
    assertEquals(await Deno.readTextFile(path), "");
  }));

Deno.test("links on the way are followed, the last one is replaced", () =>
  inFolder(async (dir) => {
    await Deno.mkdir(`${dir}/real`);
    await Deno.symlink(`${dir}/real`, `${dir}/way`);
    await Deno.symlink(`${dir}/real/target`, `${dir}/real/last`);
    assertEquals(await act(["write", `${dir}/way/last`, "644", "1"], "x"), ["", "", 0]);
    assert(Deno.lstatSync(`${dir}/real/last`).isFile);
    assertEquals(await act(["read", `${dir}/way/last`]), ["x", "", 0]);
    assertEquals(JSON.parse((await act(["list", `${dir}/way`, "1"]))[0]).entries[0].path, "last");
  }));

Deno.test("errors are a code", () =>
  inFolder(async (dir) => {
    await new Deno.Command("mkfifo", { args: [`${dir}/pipe`] }).output();
    assertEquals(await act(["read", `${dir}/none`]), ["", "file.not_found", 1]);
    for (
      const words of [["read", dir], ["read", `${dir}/pipe`], ["list", `${dir}/pipe`, "1"], [
        "write",
        dir,
        "644",
        "0",
      ], ["rub out", dir]]
    ) {
      assertEquals(await act(words, ""), ["", "file.invalid", 1], words.join(" "));
    }
  }));
