/**
 * Parts of the server for E2B's clients: lists of files, events of folders, ends of terminals,
 * metrics, rules of the network.
 */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { parseEntries } from "../../../cmd/sbx/e2b/filesystem.ts";
import { EventType, FileType } from "../../../cmd/sbx/e2b/generated/filesystem_pb.ts";
import { Guest } from "../../../cmd/sbx/e2b/guest.ts";
import { parseMetrics } from "../../../cmd/sbx/e2b/metrics.ts";
import { networkRules } from "../../../cmd/sbx/e2b/network.ts";
import { ExitMark, terminalProgram } from "../../../cmd/sbx/e2b/processes.ts";
import { claimStore, newId, newToken, type Sandbox, Store } from "../../../cmd/sbx/e2b/store.ts";
import { parseChange } from "../../../cmd/sbx/e2b/watch.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Client } from "../../../lib/client/mod.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("entries of find: files, links to folders, links to nothing, names with line breaks", () => {
  const lines = [
    ["f", "f", "6", "750", "-rwxr-x---", "root", "adm", "1795998742.6157611690", "", "/a/b\nc"],
    ["l", "d", "3", "777", "lrwxrwxrwx", "u", "g", "1.5", "../etc", "/a/link"],
    ["l", "N", "3", "777", "lrwxrwxrwx", "u", "g", "0.0", "/gone", "/a/lost"],
    ["s", "s", "0", "600", "srw-------", "u", "g", "0.0", "", "/a/socket"],
  ];
  const [file, link, lost, socket] = parseEntries(lines.flat().map((field) => `${field}\0`).join(""));
  assertEquals([file.name, file.type, file.size, file.mode, file.owner, file.group], [
    "b\nc",
    FileType.FILE,
    6n,
    0o750,
    "root",
    "adm",
  ]);
  assertEquals(file.modifiedTime?.seconds, 1795998742n);
  assertEquals(file.modifiedTime?.nanos, 615_000_000);
  assertEquals([link.type, link.symlinkTarget], [FileType.DIRECTORY, "/etc"]);
  assertEquals([lost.type, lost.symlinkTarget], [FileType.SYMLINK, "/gone"]);
  assertEquals(socket.type, FileType.UNSPECIFIED);
  assertEquals(parseEntries(""), []);
});

Deno.test("a line of the watching program is a change, and any other line is none", () => {
  assertEquals(parseChange("rename 612f62"), { type: EventType.RENAME, name: "a/b" });
  for (
    const line of [
      "",
      "ready",
      "create",
      "create zz",
      "create 6",
      "format 61",
      "create 61 61",
      "__proto__ 61",
    ]
  ) {
    assertEquals(parseChange(line), undefined, line);
  }
});

Deno.test("the exit code behind a terminal's mark is taken out, however the output is cut", () => {
  const mark = "0123";
  const output = encode("last line \x1b[0m\x1b]sbx;0123;42\x07");
  for (let cut = 0; cut <= output.length; cut++) {
    const tail = new ExitMark(mark);
    const shown = decode(tail.take(output.slice(0, cut))) + decode(tail.take(output.slice(cut)));
    assertEquals([shown, tail.code], ["last line \x1b[0m", 42], `cut at ${cut}`);
  }
  const other = new ExitMark(mark);
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  assertEquals(other.take(bytes), bytes);
  assertEquals(decode(other.take(encode("\x1b]sbx;9999;1\x07"))), "\x1b]sbx;9999;1\x07");
  assertEquals(other.code, undefined);
});

const METRICS = `cpu  100 0 100 800 0 0 0 0 0 0
cpu  130 0 120 850 0 0 0 0 0 0
2
MemTotal:        1000 kB
MemAvailable:     600 kB
Cached:           100 kB
overlay 2000 500 1500 25% /
`;

Deno.test("metrics of a guest, and a guest that prints nonsense", () => {
  const { cpuUsedPct, memUsed, memCache, diskUsed, diskTotal, cpuCount } = parseMetrics(METRICS);
  assertEquals([cpuUsedPct, cpuCount], [50, 2]);
  assertEquals([memUsed, memCache, diskUsed, diskTotal].map((bytes) => bytes / 1024), [400, 100, 500, 2000]);
  for (const text of ["", "no", METRICS.replace("2000 500", "x y"), METRICS.replace("MemTotal", "Other")]) {
    assertEquals((assertThrows(() => parseMetrics(text), SbxError) as SbxError).code, "guest.failed");
  }
});

Deno.test("what a client denies becomes rules that block; what it allows is excepted", () => {
  assertEquals(networkRules(true, {}), undefined);
  assertEquals(networkRules(true, { allowOut: ["example.org"] }), undefined);
  assertEquals(networkRules(false, {})?.map(({ match }) => match), [
    "has(http.request.host)",
    "has(dns.request.qname)",
  ]);
  const [http] = networkRules(true, { denyOut: ["0.0.0.0/0"], allowOut: ["Example.org", "*.npmjs.org"] })!;
  assertEquals(
    http.match,
    'has(http.request.host) && !(http.request.host == "example.org" || in_domain(http.request.host, "npmjs.org"))',
  );
  const [one] = networkRules(true, { denyOut: ["example.org"] })!;
  assertEquals(one.match, 'has(http.request.host) && (http.request.host == "example.org")');
  const [but] = networkRules(false, { denyOut: ["192.0.2.1"], allowOut: ["192.0.2.2"] })!;
  assertEquals(but.match, 'has(http.request.host) && !(http.request.host == "192.0.2.2")');
  // A name that leads to the address would pass the rule.
  for (const name of ["192.0.2.1", "0x7F.1", "2130706433", "*.2.1"]) {
    const error = assertThrows(() => networkRules(true, { denyOut: ["example.org", name] }), SbxError);
    assertEquals(error.code, "request.unsupported", name);
  }
  for (const name of ['a" || true || "', "10.0.0.0/8", "*", "a\nb", ""]) {
    const error = assertThrows(() => networkRules(true, { denyOut: [name] }), SbxError);
    assertEquals(error.code, "request.unsupported", name);
  }
});

Deno.test("the store keeps sandboxes for its user alone, and refuses what it did not write", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-e2b-" });
  const path = join(dir, "e2b.json");
  const sandbox: Sandbox = {
    ...{ id: newId(), vm: crypto.randomUUID(), template: "base", token: newToken(), metadata: { a: "b" } },
    ...{
      started_at: 1,
      ends_at: 2,
      on_timeout: "kill",
      auto_resume: false,
      allows_internet: true,
      is_paused: false,
    },
  };
  const store = await Store.open(path);
  await Promise.all([store.put(sandbox), store.put({ ...sandbox, id: "other", started_at: 0 })]);
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  assertEquals((await Store.open(path)).all().map(({ id }) => id), ["other", sandbox.id]);
  await store.remove("other");
  assertEquals((await Store.open(path)).all(), [sandbox]);
  for (const text of ["", "[]", '{"version":2,"sandboxes":[],"snapshots":[]}', '{"version":1}']) {
    await Deno.writeTextFile(path, text);
    assertEquals((await assertRejects(() => Store.open(path), SbxError)).code, "e2b.invalid");
  }
  await Deno.remove(dir, { recursive: true });
});

Deno.test("two servers of one home would lose each other's sandboxes: the second one is refused", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-e2b-" });
  const path = join(dir, "e2b.json");
  {
    using _first = await claimStore(path);
    assertEquals((await assertRejects(() => claimStore(path), SbxError)).code, "e2b.running");
  }
  using _next = await claimStore(path);
  await Deno.remove(dir, { recursive: true });
});

Deno.test("variables of a terminal are no words of a program, which the record and other users see", async () => {
  const words: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const { command, env } = await request.json();
    words.push(...command);
    const { code, stdout, stderr } = await new Deno.Command(command[0], { args: command.slice(1), env })
      .output();
    return Response.json({ exit_code: code, stdout: decode(stdout), stderr: decode(stderr) });
  });
  using http = Deno.createHttpClient({});
  const client = new Client(`http://127.0.0.1:${server.addr.port}`, undefined, http);
  const guest = new Guest(client, { id: newId(), vm: crypto.randomUUID() });
  const envs = { TOKEN: "it's\n$(secret) `secret`", EMPTY: "" };
  const file = await guest.variables(envs, "root");
  assertEquals((await Deno.stat(file)).mode! & 0o777, 0o600);
  const [program, ...args] = terminalProgram({ cmd: "printenv", args: ["TOKEN", "EMPTY"] }, {
    ...{ user: "root", cwd: "/", mark: "0123", variables: file },
  });
  words.push(program, ...args);
  const { stdout } = await new Deno.Command(program, { args }).output();
  assertEquals(decode(stdout), `${envs.TOKEN}\n\n\x1b]sbx;0123;0\x07`);
  assertEquals(words.filter((word) => word.includes("secret")), []);
  assertEquals(await Deno.stat(file).catch(() => "none"), "none");
  for (const name of ["A B", "-i", "A;touch x", ""]) {
    await assertRejects(() => guest.variables({ [name]: "" }, "root"), Error, "name of a variable");
  }
  const [plain, ...rest] = terminalProgram({ cmd: "false", args: [] }, {
    user: "root",
    cwd: "/",
    mark: "0123",
  });
  assertEquals(
    decode((await new Deno.Command(plain, { args: rest }).output()).stdout),
    "\x1b]sbx;0123;1\x07",
  );
  await server.shutdown();
});
