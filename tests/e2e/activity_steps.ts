/**
 * What programs of a VM do, beside what strace(1) saw of them; and programs that
 * would hide or break the report.
 */
import { assert, assertEquals } from "@std/assert";
import type { Event } from "../../lib/event/mod.ts";
import { runChild } from "../helper/child.ts";
import { eventually, type Sbx } from "../helper/sbx.ts";
import type { Parsed } from "../helper/json.ts";

/** Requests, files, and programs that programs start. */
const SCRIPT = String.raw`#!/bin/sh
cd /workspace
curl -s --max-time 5 http://203.0.113.1/traced >answer
printf 'one\n' >edited && sed -i s/one/two/ edited
mkdir -p gone/deep && touch gone/deep/file && rm -rf gone
python3 -c '
import subprocess, threading
subprocess.run(["git", "init", "-q", "made"])
threading.Thread(target=subprocess.run, args=(["git", "-C", "made", "status", "-s"],)).start()'
for name in a b c; do (sh -c "echo $name | tr a-c x-z >>edited"); done
seq 30 | xargs -P 3 -n 1 /bin/true
env -i /usr/bin/printf done >edited
`;
/** Programs that live for a moment, or are started in unusual ways; names and arguments of any bytes. */
const HOSTILE = String.raw`
import ctypes, os, stat, subprocess, sys
os.chdir("/workspace")
libc = ctypes.CDLL(None, use_errno=True)
def run(*argv, path=None):
    pid = os.fork()
    if pid == 0:
        try: os.execve(path or argv[0], argv, {})
        finally: os._exit(9)
    os.waitpid(pid, 0)
run("/bin/true", "long", "x" * 100_000, *["y" * 1000] * 1850)
run("/bin/true", b"bytes \xff\xfe", "line\nbreak", "\x1b[2J")
fd = os.memfd_create("memory", 0)
os.write(fd, open("/bin/true", "rb").read())
run("from-memory", path=fd)
run("by-descriptor", path=os.open("/bin/true", os.O_RDONLY))
for name, head in [("chain1", "/bin/sh"), ("chain2", "/workspace/chain1"), ("chain3", "/workspace/chain2")]:
    with open(name, "w") as f: f.write("#!" + head + "\nexit 4\n")
    os.chmod(name, 0o755)
run("/workspace/chain3", "deep")
subprocess.run(["cp", "/usr/bin/id", "/root/set-user-id"])
os.chown("/root/set-user-id", 65534, 65534)
os.chmod("/root/set-user-id", 0o4755)
run("/root/set-user-id", "-u")
name = "n" * 250 + "\n.txt"
open(name, "w").close()
os.link(name, "hard")
os.mkdir("folder"); open("folder/.env", "w").close()
os.rename("folder", "renamed"); open("renamed/.env").read()
run("/bin/sh", "-c", "i=0; while [ $i -lt 2000 ]; do (:); i=$((i+1)); done")
run("/bin/true", "the last one")
`;

/** Programs that a program starts, each of which ends at once. */
const NESTED =
  "cd /tmp && for n in 0 1 2 3 4 5 6 7 8 9; do /bin/echo nested $n; done; python3 -c 'import os; os.system(\"uname -n >/dev/null\")'";

/**
 * Requires that the record of a VM that has just started begins with its first program, and has none of sbx.
 *
 * @param name of a VM in which nothing was started
 */
export async function requireFirstPrograms(sbx: Sbx, name: string): Promise<void> {
  for (const at of ["first", "second"]) await sbx.ok("exec", name, "--", "sh", "-c", `: ${at}; ${NESTED}`);
  type Node = { command: string; parent?: number; exit_code?: number };
  const processes = async () => JSON.parse(await sbx.ok("tree", name, "--json")).processes as Node[];
  await eventually(
    "the report has come",
    async () =>
      (await processes()).filter(({ command, exit_code }) => command === "uname -n" && exit_code === 0)
        .length === 2,
  );
  const tree = await processes();
  const nested = tree.filter(({ command }) => command.startsWith("/bin/echo nested "));
  assertEquals(
    nested.map(({ command, parent, exit_code }) => [tree[parent!].command.slice(0, 14), command, exit_code]),
    ["first;", "second"].flatMap((at) =>
      Array.from({ length: 10 }, (_, n) => [`sh -c : ${at}`, `/bin/echo nested ${n}`, 0])
    ),
  );
  assertEquals(
    tree.filter(({ command }) => command.includes("/usr/lib/sbx/")).map(({ command }) => command),
    ["/usr/lib/sbx/sbx-activity.js"],
    "the report, and no program of sbx",
  );
  const events = (await sbx.ok("events", name, "--jsonl", "--family", "process")).trim().split("\n")
    .map((line) => JSON.parse(line) as Event);
  assertEquals(events.filter(({ common }) => common.labels.activity === "running"), []);
}

/** Steps for a running VM `dev` that reports. */
export async function activitySteps(t: Deno.TestContext, sbx: Sbx): Promise<void> {
  const { workspace } = JSON.parse(await sbx.ok("info", "dev", "--json"));
  const events = async (...filter: string[]) =>
    (await sbx.ok("events", "dev", "--jsonl", ...filter)).trim().split("\n").filter(Boolean)
      .map((line) => JSON.parse(line) as Event);
  const argumentsOf = (all: Event[]) =>
    all.filter(({ common }) => common.event_type === "process.exec" && common.actor === "vm")
      .map(({ process }) => process!.activity.argv);
  const has = async (...argv: string[]) =>
    argumentsOf(await events()).some((seen) => JSON.stringify(seen) === JSON.stringify(argv));

  await t.step(
    "strace sees no program that the record lacks; requests and files belong to theirs",
    async () => {
      await Deno.writeTextFile(`${workspace}/traced.sh`, SCRIPT);
      await bringStrace(workspace);
      await sbx.ok("exec", "dev", "--", "/workspace/strace/run");
      const traced = programsOf(await Deno.readTextFile(`${workspace}/trace`));
      assert(traced.length > 45, `${traced.length}`);
      await eventually("the last one is there", async () => await has("/usr/bin/printf", "done"));
      const recorded = argumentsOf(await events()).map(String);
      for (const argv of traced) {
        const at = recorded.indexOf(String(argv));
        assert(at >= 0, `${JSON.stringify(argv)} is missing`);
        recorded.splice(at, 1);
      }
      const { processes } = JSON.parse(await sbx.ok("tree", "dev", "--json"));
      const of = (command: string): Parsed => processes.find((each: Parsed) => each.command === command);
      assertEquals(of("curl -s --max-time 5 http://203.0.113.1/traced").events.http, 1);
      assertEquals(of("rm -rf gone").events.file, 3);
      assert(of("sed -i s/one/two/ edited").events.file >= 2);
      const init = of("git init -q made");
      assert(init.events.file > 5 && processes[init.parent].command.startsWith("python3 -c"));
      await sbx.ok("exec", "dev", "-c", "rm -rf /workspace/*");
    },
  );

  await t.step("programs of any arguments, from anywhere, of any length of life are told", async () => {
    await Deno.writeTextFile(`${workspace}/hostile.py`, HOSTILE);
    await sbx.ok("exec", "dev", "--", "python3", "/workspace/hostile.py");
    await eventually("the last one is there", async () => await has("/bin/true", "the last one"));
    const all = await events();
    const execs = argumentsOf(all);
    const truncated = all.filter(({ common, process }) =>
      common.labels.truncated !== undefined && process?.activity.executable === "/bin/true"
    );
    assertEquals(truncated.length, 1, "2 MB of arguments");
    const bytes = execs.find(([, word]) => word?.startsWith("bytes "))!;
    assertEquals(bytes.slice(1), ["bytes \ufffd\ufffd", "line\nbreak", "\x1b[2J"]);
    for (const name of ["from-memory", "by-descriptor"]) assert(execs.some(([word]) => word === name), name);
    const exit = all.find(({ process }) =>
      process?.activity.operation === "exit" && process.activity.executable === "/workspace/chain3"
    );
    assertEquals(exit?.process?.activity.exit_code, 4);
    const id = all.find(({ process }) => process?.activity.executable === "/root/set-user-id");
    assertEquals(id?.common.labels.uid, "65534", "the user that it acts as");
    const files = all.filter(({ file }) => file).map(({ file, common }) =>
      `${file!.activity.operation} ${file!.activity.path}${
        common.labels.from ? ` < ${common.labels.from}` : ""
      }`
    );
    for (
      const line of [
        `create /workspace/${"n".repeat(250)}\n.txt`,
        "create /workspace/hard",
        "rename /workspace/renamed < /workspace/folder",
        "read /workspace/renamed/.env",
      ]
    ) assert(files.includes(line), line);
    const gaps = all.filter(({ common }) => common.labels.activity === "gap");
    assertEquals(gaps.map(({ common }) => common.labels.why), [], "2,000 forks lose no record");
    await sbx.ok("exec", "dev", "-c", "rm -rf /workspace/* /root/set-user-id");
  });
}

/** Puts this machine's strace into a workspace, with its libraries; `strace/run` traces the script. */
async function bringStrace(workspace: string): Promise<void> {
  const sh =
    `set -e; mkdir -p "$1/strace"; strace=$(command -v strace) || { cd /tmp/; dir=$(mktemp -d); cd "$dir"
apt-get download -qq strace >/dev/null; dpkg -x strace_*.deb .; strace=$dir/usr/bin/strace; }
cp "$strace" $(ldd "$strace" | grep -o '/[^ ]*') "$1/strace/"`;
  const { code, stderr } = await runChild("sh", { args: ["-c", sh, "sh", workspace] });
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  const run =
    "#!/bin/sh\ncd /workspace/strace && exec ./ld-linux-x86-64.so.2 --library-path . ./strace -f -e trace=execve,execveat " +
    "-s 4096 -o /workspace/trace sh /workspace/traced.sh\n";
  await Deno.writeTextFile(`${workspace}/strace/run`, run, { mode: 0o755 });
}

/**
 * Arguments of every exec in a trace that succeeded; one that is interrupted
 * has its end on a line of its own.
 */
function programsOf(trace: string): string[][] {
  const begun = new Map<string, string>();
  const found: string[][] = [];
  for (const line of trace.split("\n")) {
    const [, pid, text] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (text === undefined) continue;
    if (/^execve(at)?\(/.test(text)) begun.set(pid, text);
    if (!/\) += 0$|resumed>.*\) += 0$/.test(text)) continue;
    const [, list] = /, (\["(?:[^"\\]|\\.)*"(?:, "(?:[^"\\]|\\.)*")*\])/.exec(begun.get(pid) ?? "")!;
    found.push(JSON.parse(list));
  }
  return found;
}
