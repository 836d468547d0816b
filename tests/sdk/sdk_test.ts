/**
 * Both SDKs against a real service and a real VM: one list of cases for Node, Deno, Bun, and Python with and
 * without asyncio. tests/e2e/vm_test.ts has the API's own.
 */
import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { eventually, Sbx } from "../helper/sbx.ts";
import type { Parsed } from "../helper/json.ts";
import { Driver, type Language, LANGUAGES, SdkError } from "./driver.ts";

const MEBIBYTE = 1024 * 1024;

/** One SDK with the shared VM. */
interface Seat {
  sdk: Driver;
  client: string;
  /** the VM in the SDK */
  vm: string;
  language: Language;
}

/** Calls of a seat's VM. */
const on = ({ sdk, vm }: Seat) => (op: string, args: Record<string, unknown> = {}): Promise<Parsed> =>
  sdk.call(op, { vm, ...args });

const CASES: [name: string, run: (seat: Seat, sbx: Sbx) => Promise<void>][] = [
  ["exec: stdout and stderr apart, exit code, a line, variables, folder, user", async (seat) => {
    const call = on(seat);
    const ran = await call("exec", { command: ["sh", "-c", "echo out; echo err >&2; exit 7"] });
    assertEquals([ran.stdout, ran.stderr, ran.exit_code, ran.truncated], ["out\n", "err\n", 7, false]);
    assertMatch(ran.event_id, /^[0-9a-f]{12}$/);
    const line = "echo $A; pwd; id -un";
    const { stdout } = await call("exec", { command: line, env: { A: "b" }, cwd: "/etc", user: "nobody" });
    assertEquals(stdout, "b\n/etc\nnobody\n");
  }],
  ["exec: input as text and bytes, a time limit, a program that is not there", async (seat) => {
    const call = on(seat);
    assertEquals((await call("exec", { command: ["cat"], stdin: "typed ü" })).stdout, "typed ü");
    const bytes = await call("exec", { command: "od -An -tx1", stdin_bytes: [0, 255, 10] });
    assertEquals(bytes.stdout.trim(), "00 ff 0a");
    assertEquals((await call("exec", { command: "sleep 300", timeout: 1 })).exit_code, 124);
    assertEquals((await call("exec", { command: ["/no/such/program"] })).exit_code, 126);
  }],
  ["exec: check makes an error with the exit code and an event that why explains", async (seat) => {
    const call = on(seat);
    const { reply } = await assertRejects(
      () => call("exec", { command: "echo bad >&2; exit 3", check: true }),
      SdkError,
    );
    assertEquals([reply.code, reply.exit_code], ["program.failed", 3]);
    assertStringIncludes(reply.message, "bad");
    assertEquals(await call("why", { event: reply.event_id }), "process.exec");
  }],
  ["exec: a callback gets all of the output, the result its first 10 MiB", async (seat) => {
    const counted = await on(seat)("count", { command: "head -c 12M /dev/zero" });
    assertEquals(counted, { bytes: 12 * MEBIBYTE, truncated: true });
  }],
  ["exec: a callback that throws, and a caller that leaves, end the program", async (seat) => {
    const call = on(seat);
    const mark = `4242${LANGUAGES.indexOf(seat.language)}`;
    const command = `echo begun; exec sleep ${mark}`;
    const thrown = await assertRejects(() => call("count", { command, throw_after: 1 }), SdkError);
    assertStringIncludes(thrown.reply.message, "the callback threw");
    await eventually("the program has ended", async () => !await isRunning(seat, mark));
    await assertRejects(() => call("count", { command, abort_after: 1 }), SdkError);
    await eventually("the program has ended", async () => !await isRunning(seat, mark));
  }],
  ["spawn: input while it runs, more than a window of it", async (seat) => {
    const piped = await on(seat)("pipe", { command: ["cat"], bytes: 3 * MEBIBYTE });
    assertEquals(piped, { bytes: 3 * MEBIBYTE, exit_code: 0 });
  }],
  ["pty: size, input and end", async (seat) => {
    const command = ["sh", "-c", "read -r line; stty size; echo got $line"];
    const { text, code } = await on(seat)("pty", { command, cols: 101, rows: 31, input: "hello\n" });
    assertStringIncludes(text, "31 101");
    assertStringIncludes(text, "got hello");
    assertEquals(code, 1000);
  }],
  ["files: both ways, with folders and modes, and of a megabyte", async (seat) => {
    const call = on(seat);
    const folder = `files-${seat.language}`;
    await call("write", { path: `${folder}/deep/run.sh`, content: "#!/bin/sh\necho ran ü\n", mode: "0755" });
    assertEquals((await call("exec", { command: [`/workspace/${folder}/deep/run.sh`] })).stdout, "ran ü\n");
    assertEquals(await call("read_text", { path: `${folder}/deep/run.sh` }), "#!/bin/sh\necho ran ü\n");
    await call("make_folder", { path: `${folder}/empty` });
    const listed = await call("list_files", { path: folder, depth: 2 });
    assertEquals(listed.sort(), [`${folder}/deep`, `${folder}/deep/run.sh`, `${folder}/empty`]);
    await call("write_size", { path: "/root/big", size: 5 * MEBIBYTE });
    assertEquals(await call("read", { path: "/root/big" }), 5 * MEBIBYTE);
    const missing = await assertRejects(() => call("read_text", { path: "no/such" }), SdkError);
    assertEquals(missing.reply.code, "file.not_found");
  }],
  ["ports: opened, listed and closed", async (seat) => {
    const call = on(seat);
    const port = await call("port_open", { port: 8099 });
    assertEquals([port.guest_port, await call("port_list")], [8099, [8099]]);
    const serve = "cd /etc && exec python3 -m http.server 8099 --bind 127.0.0.1";
    await call("exec", { command: `(${serve}) >/dev/null 2>&1 & echo begun` });
    await eventually("the guest's server answers", async () => {
      const answer = await fetch(`http://127.0.0.1:${port.host_port}/passwd`).catch(() => undefined);
      return (await answer?.text())?.startsWith("root:") ?? false;
    });
    await call("exec", { command: "pkill -f '[h]ttp.server 8099'" });
    await call("port_close", { port: 8099 });
    assertEquals(await call("port_list"), []);
  }],
  ["snapshot and undo", async (seat) => {
    const call = on(seat);
    const path = `kept-${seat.language}`;
    await call("write", { path, content: "one" });
    const to = await call("snapshot", { label: `of ${seat.language}` });
    await call("write", { path, content: "two" });
    assertEquals(await call("undo", { to, dry_run: true }), 1);
    assertEquals(await call("read_text", { path }), "two");
    assert(await call("undo", { to }) >= 1);
    assertEquals(await call("read_text", { path }), "one");
  }],
  ["events: each once and in order, from any sequence on, and as they come", async (seat) => {
    const call = on(seat);
    const all: number[] = await call("events", { follow: false });
    assertEquals(all, [...new Set(all)].sort((a, b) => a - b));
    assertEquals(await call("events", { follow: false, after: all[2] }).then((rest) => rest[0]), all[3]);
    const { follow } = await call("follow", { after: all.at(-1), family: "process" });
    const mark = `echo followed-${seat.language}`;
    const { event_id } = await call("exec", { command: mark });
    assertEquals(await call("why", { event: event_id }), "process.exec");
    await eventually(
      "the event came",
      async () => JSON.stringify(await seat.sdk.call("followed", { follow })).includes(event_id),
    );
    const seen: [number, string | null, string][] = await seat.sdk.call("unfollow", { follow });
    // The guest reports the program as well, in an event of its own.
    assertEquals(seen.filter(([, , id]) => id === event_id).map(([, command]) => command?.includes(mark)), [
      true,
    ]);
    const sequences = seen.map(([sequence]) => sequence);
    assertEquals(sequences, [...new Set(sequences)].sort((a, b) => a - b));
  }],
  ["costs, certificate, info", async (seat) => {
    const call = on(seat);
    assertEquals(await call("costs"), [["usd", 2]]);
    assertStringIncludes(await call("certificate"), "json");
    const { name, status } = await call("info");
    assertEquals([name, status, await call("status")], ["shared", "Running", "Running"]);
  }],
];

Deno.test("both SDKs, by the same cases, against one VM", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    const json = { name: "shared", budget: { usd: 2 } };
    assertEquals((await sbx.api("POST", "/vms/create", json)).status, 200);
    for (const language of LANGUAGES) {
      await using sdk = new Driver(language, sbx.env);
      // Two ways: the token, and the socket of this home.
      const way = ["node", "python"].includes(language)
        ? { host: sbx.base, token: sbx.token }
        : { home: sbx.home };
      const { client } = await sdk.call("connect", way);
      const { vm } = await sdk.call("get", { client, name: "shared" });
      for (const [name, run] of CASES) {
        await t.step(`${language}: ${name}`, () => run({ sdk, client, vm, language }, sbx));
      }
    }
    await t.step("a client that vanishes ends its program of endless output", async () => {
      const sdk = new Driver("python", sbx.env);
      const { client } = await sdk.call("connect", { home: sbx.home });
      const { vm } = await sdk.call("get", { client, name: "shared" });
      const seat: Seat = { sdk, client, vm, language: "python" };
      const endless = sdk.call("count", { vm, command: "yes vanishing-client" });
      const ended = assertRejects(() => endless);
      await eventually("it runs", () => isRunning(seat, "vanishing-client"));
      await sdk.kill();
      await ended;
      const after = new Driver("node", sbx.env);
      const { client: other } = await after.call("connect", { home: sbx.home });
      const { vm: again } = await after.call("get", { client: other, name: "shared" });
      const from: Seat = { sdk: after, client: other, vm: again, language: "node" };
      await eventually("it has ended", async () => !await isRunning(from, "vanishing-client"));
      await after[Symbol.asyncDispose]();
    });
    for (const language of ["node", "python-async"] as const) {
      await t.step(
        `${language}: two clients, and a service that restarts under them`,
        () => restart(sbx, language),
      );
      await t.step(
        `${language}: asks are answered, and a callback that throws denies`,
        () => asks(sbx, language),
      );
      await t.step(
        `${language}: create with a repository, its work as a patch, clean-up`,
        () => life(sbx, language),
      );
    }
  } finally {
    await sbx.dispose();
  }
});

/** True if a program with the mark in its arguments runs in the VM. */
async function isRunning(seat: Seat, mark: string): Promise<boolean> {
  // The brackets keep the search from finding itself.
  const pattern = `[${mark[0]}]${mark.slice(1)}`;
  const { stdout } = await on(seat)("exec", { command: `ps -e -o args | grep -c '${pattern}' || true` });
  return Number(stdout) > 0;
}

async function restart(sbx: Sbx, language: Language): Promise<void> {
  await using sdk = new Driver(language, sbx.env);
  const { client } = await sdk.call("connect", { home: sbx.home });
  const { vm } = await sdk.call("get", { client, name: "shared" });
  const call = on({ sdk, client, vm, language });
  const all: number[] = await call("events", { follow: false });
  const { follow } = await call("follow", { after: all.at(-1), family: "process" });
  const long = call("exec", { command: "sleep 300" });
  const broken = assertRejects(() => long, SdkError);
  await eventually(
    "the program runs",
    async () => JSON.stringify(await sdk.call("followed", { follow })).includes("sleep 300"),
  );
  Deno.kill(sbx.pid("service"), "SIGKILL");
  assertEquals((await broken).reply.code, "service.gone");
  // Sent while nothing answers; one VM comes of it.
  const making = sdk.call("create", { client, name: `again-${language}`, ram_mb: 512 });
  await sbx.ok("start");
  const made = await making;
  assertEquals(
    (await sdk.call("list", { client })).filter((name: string) => name.startsWith("again")).length,
    1,
  );
  await sdk.call("dispose", { vm: made.vm });
  await call("exec", { command: "echo after-the-restart" });
  await eventually(
    "the events go on",
    async () => JSON.stringify(await sdk.call("followed", { follow })).includes("after-the-restart"),
  );
  const seen: [number, string | null, string][] = await sdk.call("unfollow", { follow });
  const sequences = seen.map(([sequence]) => sequence);
  assertEquals(sequences, [...new Set(sequences)].sort((a, b) => a - b));
}

async function asks(sbx: Sbx, language: Language): Promise<void> {
  const rule_id = `asks-${language}`;
  const rule = { action: "ask", match: `process.activity.command.contains("asked-${language}")` };
  const saved = await sbx.api("POST", "/profiles/code/enforcement/rules/create", { rule_id, rule });
  assertEquals(saved.status, 200, JSON.stringify(saved.body));
  await using sdk = new Driver(language, sbx.env);
  const { client } = await sdk.call("connect", { home: sbx.home });
  const { vm } = await sdk.call("get", { client, name: "shared" });
  const call = on({ sdk, client, vm, language });
  for (const [answer, code] of [["allow", 0], ["deny", 126], ["throw", 126]] as const) {
    const { handler } = await call("ask", { answer });
    const ran = await call("exec", { command: `echo asked-${language} ${answer}` });
    assertEquals(ran.exit_code, code, `${answer}: ${ran.stderr}`);
    const failure = await sdk.call("ask_close", { handler });
    assertEquals(failure, answer === "throw" ? `no answer for ${rule_id}` : null);
  }
  await sbx.api("DELETE", `/profiles/code/enforcement/rules/${rule_id}`);
}

async function life(sbx: Sbx, language: Language): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-sdk-" });
  await Deno.writeTextFile(join(dir, "a.txt"), "one\n");
  await using sdk = new Driver(language, sbx.env);
  const { client } = await sdk.call("connect", { home: sbx.home });
  const made = await sdk.call("create", { client, repo: dir, env: { GREETING: "hi" }, ram_mb: 512 });
  const call = on({ sdk, client, vm: made.vm, language });
  const place = (await call("info")).repositories[0].place;
  assertEquals((await call("exec", { command: ["printenv", "GREETING"] })).stdout, "hi\n");
  assertEquals((await call("pull")).map(({ patch }: { patch: string }) => patch), [""]);
  await call("exec", { command: "echo two >> a.txt", cwd: place, check: true });
  const [{ patch, dir: from }] = await call("pull");
  assertEquals(from, await Deno.realPath(dir));
  assertStringIncludes(patch, "\n+two\n");
  await call("pause");
  assertEquals(await call("status"), "Paused");
  await call("resume");
  // With its memory, where this host's QEMU can write a machine down; else a refusal, and it goes on.
  const forked = await call("fork", { count: 2 }).catch(({ reply }: SdkError) => reply.code);
  const suspended = await call("suspend").catch(({ reply }: SdkError) => reply.code);
  if (suspended === null) {
    assertEquals([forked.length, await call("status")], [2, "Suspended"]);
    for (const { vm } of forked) {
      assertEquals((await sdk.call("exec", { vm, command: `tail -n 1 ${place}/a.txt` })).stdout, "two\n");
      await sdk.call("dispose", { vm });
    }
    await call("resume");
  } else assertEquals([forked, suspended], ["vm.not_supported", "vm.not_supported"]);
  assertEquals((await call("exec", { command: `tail -n 1 ${place}/a.txt` })).stdout, "two\n");
  await call("dispose");
  assertEquals((await sdk.call("list", { client })).includes(made.name), false);
  assertEquals(await sbx.left(made.id), []);
  // Its record stays.
  assertStringIncludes(await call("certificate"), "json");
  await Deno.remove(dir, { recursive: true });
}
