/** PAC files: their answers, and what a hostile one reaches. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "node:path";
import { pathToFileURL as toFileUrl } from "node:url";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { PacFile } from "../../../../lib/base/proxy/pac.ts";
import { parseGsettings, parseScutil } from "../../../../lib/base/proxy/system.ts";
import { runChild } from "../../../helper/child.ts";
import { fromRoot } from "../../../helper/repo.ts";

async function withPac(text: string, run: (file: PacFile) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    const path = join(dir, "proxy.pac");
    await Deno.writeTextFile(path, text);
    await run(new PacFile(toFileUrl(path).href));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const find = (
  file: PacFile,
  host: string,
  { scheme = "https", port = 443, address = undefined as string | undefined } = {},
) => file.find({ scheme, host, port, ...(address && { address }) });

Deno.test("a PAC file's answer depends on host, address and URL, and names several ways in order", async () => {
  await withPac(
    `function FindProxyForURL(url, host) {
      if (isPlainHostName(host) || dnsDomainIs(host, ".corp.example")) return "DIRECT";
      if (isInNet(host, "192.0.2.0", "255.255.255.0")) return "PROXY near:8080";
      if (shExpMatch(url, "http://*:8081/")) return "SOCKS5 socks:1080; DIRECT";
      if (localHostOrDomainIs(host, "www.example.com")) return "HTTPS safe.example:443";
      return "PROXY one:3128; PROXY two:3128; DIRECT";
    }`,
    async (file) => {
      assertEquals(await find(file, "intranet"), [undefined]);
      assertEquals(await find(file, "a.corp.example"), [undefined]);
      assertEquals(await find(file, "192.0.2.9"), ["http://near:8080"]);
      // The address that policy decided on is the name's: nothing is looked up.
      assertEquals(await find(file, "x.invalid", { address: "192.0.2.10" }), ["http://near:8080"]);
      assertEquals(await find(file, "10.0.0.1", { scheme: "http", port: 8081 }), [
        "socks5://socks:1080",
        undefined,
      ]);
      assertEquals(await find(file, "10.0.0.1", { scheme: "http", port: 80 }), [
        "http://one:3128",
        "http://two:3128",
        undefined,
      ]);
      assertEquals(await find(file, "www.example.com", { address: "198.51.100.1" }), [
        "https://safe.example:443",
      ]);
      // A name that nobody has resolves to nothing, and the file goes on.
      assertEquals((await find(file, "nothing.invalid"))[0], "http://one:3128");
    },
  );
});

Deno.test("a PAC file reaches no file, no network and no object of this program", async () => {
  const marker = join(await Deno.makeTempDir(), "marker");
  const tries = [
    "typeof Deno + typeof process + typeof require + typeof fetch + typeof Worker",
    "this.constructor.constructor('return typeof Deno')()",
    "(() => {}).constructor('return typeof process')()",
    "eval('1 + 1')",
    "dnsResolve.constructor('return typeof Deno')()",
    "new Error().constructor.constructor('return typeof Deno')()",
  ];
  const text = `function FindProxyForURL() {
    import("node:fs").then((fs) => fs.writeFileSync(${JSON.stringify(marker)}, "x"), (e) => {
      e.constructor.constructor("return Deno")().writeTextFileSync(${JSON.stringify(marker)}, "x");
    });
    const seen = [];
    ${tries.map((each) => `try { seen.push(String(${each})) } catch (e) { seen.push(e.name) }`).join("\n")}
    return "PROXY " + seen.join("_").replace(/[^A-Za-z_]/g, "") + ":1";
  }`;
  await withPac(text, async (file) => {
    const [way] = await find(file, "192.0.2.1");
    assertEquals(way, `http://${"undefined".repeat(5)}_${Array(5).fill("EvalError").join("_")}:1`);
  });
  assert(!await Deno.stat(marker).then(() => true, () => false));
  await Deno.remove(join(marker, ".."), { recursive: true });
});

Deno.test("a PAC file has no object whose memory is outside of the worker's limit", async () => {
  const text = `function FindProxyForURL() {
    throw Object.getOwnPropertyNames(globalThis).filter((name) => {
      try {
        return /Buffer|Memory|Atomics/.test(name + Object.getOwnPropertyNames(globalThis[name]).join()) ||
          "buffer" in globalThis[name].prototype;
      } catch { return false; }
    }).join() + "\\x1b[2J";
  }`;
  await withPac(text, async (file) => {
    const error = await assertRejects(() => find(file, "192.0.2.1"), SbxError);
    // Without what rewrites a terminal.
    assertEquals(error.message, "the PAC file failed: ?[2J");
  });
});

/** Threads of this process. */
const threads = () => [...Deno.readDirSync("/proc/self/task")].length;

Deno.test({
  name: "questions for many hosts at once, as a guest may cause them, share a few workers",
  ignore: Deno.build.os !== "linux",
  fn: shareWorkers,
});

async function shareWorkers(): Promise<void> {
  await withPac("const FindProxyForURL = () => 'PROXY a:1';", async (file) => {
    await find(file, "192.0.2.250");
    const before = threads();
    let most = before;
    const all = Array.from({ length: 40 }, (_, at) => find(file, `192.0.2.${at}`));
    all.forEach((each) => each.finally(() => most = Math.max(most, threads())));
    assertEquals(await Promise.all(all), Array(40).fill(["http://a:1"]));
    assert(most - before < 20, `${most - before} more threads`);
  });
}

Deno.test("a PAC file that cannot be read again is used on, and one that never was is not", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "proxy.pac");
  await Deno.writeTextFile(path, "const FindProxyForURL = () => 'PROXY a:1';");
  const file = new PacFile(`${toFileUrl(path).href}?key=hunter2`);
  const { now } = Date;
  try {
    assertEquals(await find(file, "192.0.2.1"), ["http://a:1"]);
    await Deno.remove(path);
    for (let hour = 1; hour < 4; hour++) {
      Date.now = () => now() + hour * 3_600_000;
      assertEquals(await find(file, "192.0.2.1"), ["http://a:1"], `hour ${hour}`);
    }
  } finally {
    Date.now = now;
    await Deno.remove(dir, { recursive: true });
  }
  const gone = new PacFile("file:///nowhere/proxy.pac?key=hunter2");
  const { message } = await assertRejects(() => find(gone, "192.0.2.1"), SbxError);
  assertEquals(message, "the PAC file file:///nowhere/proxy.pac cannot be read");
});

Deno.test("a PAC file that fails, fills memory or answers nonsense is an error, never a direct connection", async () => {
  const bad = [
    "function FindProxyForURL() { throw new Error('no') }",
    "function FindProxyForURL() { for (const a = [];;) a.push(new Array(100000).fill(1)) }",
    "function FindProxyForURL() { return 'QUIC x:1' }",
    "function FindProxyForURL() { return 'PROXY a b c' }",
    "const FindProxyForURL = () => ({ toString() { throw 1 } })",
    "not a program (",
    "let other = 1;",
  ];
  for (const text of bad) {
    await withPac(text, async (file) => {
      const error = await assertRejects(() => find(file, "192.0.2.1"), SbxError, undefined, text);
      assertEquals(error.code, "network.proxy.failed", text);
    });
  }
  assertEquals(assertThrows(() => new PacFile("ftp://x/y"), SbxError).code, "network.proxy.invalid");
  const gone = new PacFile("file:///nowhere/proxy.pac");
  assertEquals((await assertRejects(() => find(gone, "192.0.2.1"), SbxError)).code, "network.proxy.failed");
});

Deno.test({
  name: "a PAC file that loops or fills memory is ended by what it uses, whatever else the machine does",
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const dir = await Deno.makeTempDir();
    try {
      const addressOf = async (name: string, text: string) => {
        const path = join(dir, name);
        await Deno.writeTextFile(path, text);
        return toFileUrl(path).href;
      };
      const fill = await addressOf(
        "fill",
        "function FindProxyForURL() { for (const a = [];;) a.push(new Array(100000).fill(1)) }",
      );
      const loop = await addressOf(
        "loop",
        "function FindProxyForURL(url, host) { while (host !== '192.0.2.2'); return 'PROXY a:1' }",
      );
      const script = `import { PacFile } from ${JSON.stringify(fromRoot("lib/base/proxy/pac.ts"))};
        const loop = new PacFile(${JSON.stringify(loop)});
        const find = (file, host) => file.find({ scheme: "https", host, port: 443 }).catch(({ message }) => message);
        console.log(JSON.stringify([
          await find(new PacFile(${JSON.stringify(fill)}), "192.0.2.1"),
          await find(loop, "192.0.2.1"),
          await find(loop, "192.0.2.2"),
        ]));`;
      // A machine that gives it little of a processor must not end it by the limit of time.
      const { stdout, stderr } = await runChild(Deno.execPath(), {
        args: ["eval", "--quiet", script],
        cwd: fromRoot(""),
        env: { SBX_TIME_FACTOR: "100" },
      });
      assertEquals(JSON.parse(new TextDecoder().decode(stdout) || "null"), [
        "the PAC file ended without an answer, as with more than 32 MiB",
        "the PAC file computes for too long",
        // Other questions are answered.
        ["http://a:1"],
      ], new TextDecoder().decode(stderr));
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});

Deno.test("the system's settings are read as GNOME and macOS print them", () => {
  const gnome = (mode: string) =>
    `org.gnome.system.proxy autoconfig-url 'http://wpad.example/proxy.pac'
org.gnome.system.proxy ignore-hosts ['localhost', '127.0.0.0/8', '::1', '.corp.example']
org.gnome.system.proxy mode '${mode}'
org.gnome.system.proxy.http host 'proxy.example'
org.gnome.system.proxy.http port 3128
org.gnome.system.proxy.https host ''
org.gnome.system.proxy.https port 0
org.gnome.system.proxy.socks host 'socks.example'
org.gnome.system.proxy.socks port 1080
`;
  assertEquals(parseGsettings(gnome("none")), {});
  assertEquals(parseGsettings(gnome("auto")), { pac: "http://wpad.example/proxy.pac" });
  assertEquals(parseGsettings(gnome("manual")), {
    http: "http://proxy.example:3128",
    https: "socks5://socks.example:1080",
    ignored: ["localhost", "127.0.0.0/8", "::1", ".corp.example"],
  });
  assertThrows(() => parseGsettings("No such schema"));
  assertEquals(
    parseScutil(`<dictionary> {
  ExceptionsList : <array> {
    0 : *.local
    1 : 169.254/16
  }
  HTTPSEnable : 1
  HTTPSPort : 3128
  HTTPSProxy : proxy.example
}
`),
    { https: "http://proxy.example:3128", ignored: ["*.local", "169.254/16"] },
  );
});
