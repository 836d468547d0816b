/** Permissions of the aggregator process: a probe inside it attempts everything it must not do. */
import { assertEquals } from "@std/assert";
import { runChild } from "../../helper/child.ts";
import { withAggregator } from "../../helper/mcp_driver.ts";
import { definition, result, scriptedServer } from "../../helper/mcp_server.ts";
import { fromRoot } from "../../helper/repo.ts";
import { eventually } from "../../helper/sbx.ts";

const CONTROL = [
  "read a file",
  "read a file by node",
  "read its own environment",
  "list a folder",
  "write a file",
  "make a temporary file",
  "run a program",
  "run a program by node",
  "see the environment",
  "see the environment by node",
  "open a library",
  "know the host",
  "connect to its own server",
  "fetch from its own server",
  "connect by node",
  "listen",
];

/** Runs the aggregator itself, and attempts everything once it serves. */
const PROBE = `
const { main } = await import(${JSON.stringify(`file://${fromRoot("cmd/aggregator/main.ts")}`)});
const process = (await import("node:process")).default;
const fs = (await import("node:fs")).default;
const net = (await import("node:net")).default;
const child = (await import("node:child_process")).default;
const served = () => main(Deno.args).then((code) => Deno.exit(code));
const dropped = async () => { while ((await Deno.permissions.query({ name: "import" })).state === "granted") await new Promise((r) => setTimeout(r, 5)); };
const tries = {
  "read a file": () => Deno.readTextFile("/etc/hostname"),
  "read a file by node": () => fs.readFileSync("/etc/hostname"),
  "read its own environment": () => Deno.readTextFile("/proc/self/environ"),
  "list a folder": () => Deno.readDirSync("/").next(),
  "write a file": () => Deno.writeTextFile("FOLDER/written", "x"),
  "make a temporary file": () => Deno.makeTempFile(),
  "run a program": () => new Deno.Command("/bin/true").output(),
  "run a program by node": () => { child.execFileSync("/bin/true"); },
  "see the environment": () => Deno.env.toObject(),
  "see the environment by node": () => ({ ...process.env }).PATH.length,
  "open a library": () => Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } }),
  "know the host": () => Deno.hostname(),
  "send a signal": () => Deno.kill(1, "SIGCONT"),
  "resolve a name": () => Deno.resolveDns("example.com", "A"),
  "connect to its own server": () => Deno.connect({ hostname: "127.0.0.1", port: PORT }),
  "fetch from its own server": () => fetch("http://127.0.0.1:PORT/"),
  "connect to another host": () => Deno.connect({ hostname: "192.0.2.1", port: 80 }),
  "connect to a socket": () => Deno.connect({ transport: "unix", path: Deno.args[1] }),
  "connect by node": () => new Promise((resolve, reject) => net.connect(PORT, "127.0.0.1", resolve).on("error", reject)),
  "listen": () => Deno.listen({ port: 0 }),
  "load code from a file": () => import("FOLDER/module.ts".slice()),
  "load code from the network": () => import("http://127.0.0.1:PORT/x.ts".slice()),
  "start a worker from a file": () => new Promise((resolve, reject) => {
    const worker = new Worker("file://" + "FOLDER/module.ts", { type: "module" });
    worker.onerror = (event) => { event.preventDefault(); reject(new Deno.errors.NotCapable("worker")); };
    worker.onmessage = resolve;
  }),
};
async function attempt(names) {
  const did = [];
  for (const name of names) {
    try { await tries[name](); did.push(name); } catch { /* it may not */ }
  }
  return did;
}
const say = (what, did) => Deno.stderr.write(new TextEncoder().encode(what + " " + JSON.stringify(did) + "\\n"));
// Control: these succeed before permissions are revoked.
// An attempt that fails for another reason proves nothing.
await say("COULD", await attempt(CONTROL));
served();
await dropped();
await say("DID", await attempt(Object.keys(tries)));
`;

Deno.test("mcp: the aggregator has its pipes and the wire to its parent, nothing else", async () => {
  const server = scriptedServer({ call: ({ id }) => result(id, { content: [] }) });
  const dir = await Deno.makeTempDir();
  const probe = `${dir}/probe.ts`;
  const out = `${dir}/stderr`;
  await Deno.writeTextFile(`${dir}/module.ts`, "self.postMessage?.(1); export default 1;");
  await Deno.writeTextFile(
    probe,
    PROBE.replaceAll("PORT", String(server.port)).replaceAll("FOLDER", dir).replace(
      "CONTROL",
      JSON.stringify(CONTROL),
    ),
  );
  const deno = [
    Deno.execPath(),
    "run",
    "-A",
    "--no-prompt",
    "--quiet",
    "--cached-only",
    "--config",
    fromRoot("deno.json"),
  ];
  // A shell stores the probe's report.
  const command = ["/bin/sh", "-c", `exec "$@" 2>${out}`, "sh", ...deno, probe];
  await withAggregator([definition("s", server.url)], async (aggregator) => {
    assertEquals(await aggregator.callTool("s__do", {}), { content: [] });
    await eventually("the probe is through", async () => (await Deno.readTextFile(out)).includes("DID"));
    const said = await Deno.readTextFile(out);
    assertEquals(JSON.parse(/^COULD (.*)$/m.exec(said)![1]), CONTROL);
    const status = await Deno.readTextFile(`/proc/${aggregator.pid}/status`);
    assertEquals([/NoNewPrivs:\t1/.test(status), /Seccomp:\t2/.test(status)], [true, true]);
    assertEquals(/^DID .*$/m.exec(said)?.[0], "DID []");
    assertEquals(await aggregator.callTool("s__do", {}), { content: [] });
  }, { command });
  await Deno.remove(dir, { recursive: true });
  await server.close();
});

/** With all of Deno's permissions, and the kernel's filter alone. */
const FILTERED = `
import { confineProcess } from ${JSON.stringify(`file://${fromRoot("ffi/libc/confine.ts")}`)};
const kept = await Deno.open("/etc/hostname");
const libc = Deno.dlopen("libc.so.6", {
  open: { parameters: ["buffer", "i32"], result: "i32" },
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  unlink: { parameters: ["buffer"], result: "i32", nonblocking: true },
  tgkill: { parameters: ["i32", "i32", "i32"], result: "i32" },
  sigqueue: { parameters: ["i32", "i32", "usize"], result: "i32" },
});
if (!confineProcess()) throw new Error("no filter");
const path = new TextEncoder().encode("/etc/hostname\\0");
const denied = async (attempt) => {
  try { await attempt(); return "done"; } catch (error) { return error.name; }
};
console.log(JSON.stringify([
  await denied(() => Deno.readTextFile("/etc/hostname")),
  await denied(() => Deno.writeTextFile("/tmp/sbx-mcp-probe", "x")),
  await denied(() => Deno.remove("/etc/hostname")),
  await denied(() => Deno.mkdir("/tmp/sbx-mcp-probe-folder")),
  await denied(() => Deno.connect({ port: 80 })),
  await denied(() => new Deno.Command("/bin/true").output()),
  await denied(() => import("/tmp/none.ts".slice())),
  libc.symbols.open(path, 0),
  libc.symbols.socket(1, 1, 0),
  // In another thread, started before the filter was installed.
  await libc.symbols.unlink(path),
  // Other ways to signal a process than kill(2); 0 asks whether it could be.
  libc.symbols.tgkill(Deno.ppid, Deno.ppid, 0),
  libc.symbols.sigqueue(Deno.ppid, 0, 0n),
  (await kept.read(new Uint8Array(10))) > 0,
]));
`;

Deno.test("mcp: the kernel's filter holds without Deno's permissions, in every thread", async () => {
  const dir = await Deno.makeTempDir();
  await Deno.writeTextFile(`${dir}/filtered.ts`, FILTERED);
  const { stdout, stderr } = await runChild(Deno.execPath(), {
    args: ["run", "-A", "--quiet", `${dir}/filtered.ts`],
  });
  const said = new TextDecoder().decode(stdout);
  const not = "PermissionDenied";
  assertEquals(JSON.parse(said || new TextDecoder().decode(stderr)), [
    ...[not, not, not, not, not, not],
    "TypeError",
    ...[-1, -1, -1, -1, -1],
    true,
  ]);
  await Deno.remove(dir, { recursive: true });
});
