import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { NoProxy, readProxies } from "../../../../lib/base/proxy/mod.ts";

const env = (values: Record<string, string>) => ({ get: (name: string) => values[name] });

Deno.test("the setting wins over the environment, and none wins over it too", async () => {
  const values = env({ HTTPS_PROXY: "http://env.example:1", NO_PROXY: "*" });
  const set = await readProxies({ url: "http://set.example:3128", no_proxy: ["a.example"] }, values);
  assertEquals([set.https?.hostname, set.http?.port], ["set.example", 3128]);
  assertEquals(["a.example", "b.example"].map((host) => set.noProxy.has(host, 443)), [true, false]);
  const none = await readProxies({ url: "none" }, values);
  assertEquals([none.https, none.http], [undefined, undefined]);
});

Deno.test("the environment's proxies are read as other programs read them", async () => {
  const both = await readProxies(
    {},
    env({ https_proxy: "low.example:8080", HTTPS_PROXY: "http://up.example" }),
  );
  assertEquals([both.https?.hostname, both.https?.port, both.http], ["low.example", 8080, undefined]);
  const all = await readProxies(
    {},
    env({ ALL_PROXY: "http://u%40x:p%3Aw@[::1]:9", NO_PROXY: "a.example, .b.example" }),
  );
  assertEquals(all.http, {
    scheme: "http",
    hostname: "::1",
    port: 9,
    user: { username: "u@x", password: "p:w" },
  });
  assertEquals(all.https, all.http);
  assert(all.noProxy.has("x.b.example", 80));
  assertEquals((await readProxies({}, env({ HTTPS_PROXY: "" }))).https, undefined);
});

Deno.test("hosts without a proxy: names with those below, addresses, networks, ports, and always this machine", () => {
  const list = new NoProxy([
    "example.com",
    "*.wild.example",
    "192.0.2.0/24",
    "2001:db8::/32",
    "port.example:8080",
    "203.0.113.9",
    "dotted.example.",
    "198.51.100.0/24:8080",
    "[2001:db8:1::]/48:81",
    "[2001:db9::7]:82",
  ]);
  assertEquals(list.problems, []);
  const cases: [host: string, port: number, isDirect: boolean][] = [
    ["example.com", 443, true],
    ["EXAMPLE.com.", 443, true],
    ["a.b.example.com", 443, true],
    ["notexample.com", 443, false],
    ["example.com.evil.test", 443, false],
    ["x.wild.example", 443, true],
    ["192.0.2.77", 80, true],
    ["192.0.3.1", 80, false],
    ["[2001:db8::5]", 80, true],
    ["port.example", 8080, true],
    ["port.example", 443, false],
    ["203.0.113.9", 1, true],
    ["dotted.example", 1, true],
    ["a.dotted.example", 1, true],
    ["198.51.100.7", 8080, true],
    ["198.51.100.7", 8081, false],
    ["2001:db8:1::1", 81, true],
    ["2001:db9::7", 82, true],
    ["2001:db9::7", 83, false],
    ["1203.0.113.9", 1, false],
    ["localhost", 1, true],
    ["127.8.8.8", 1, true],
    ["[::1]", 1, true],
    ["localhost.example", 1, false],
  ];
  for (const [host, port, isDirect] of cases) assertEquals(list.has(host, port), isDirect, `${host}:${port}`);
  assert(new NoProxy(["*"]).has("any.example", 443));
});

Deno.test("a wrong proxy is refused without its password", async () => {
  const wrong = [
    "proxy.example:3128",
    "ftp://proxy.example",
    // It would be an option of the program that logs in.
    "http://-x:3128",
    "socks4://proxy.example",
    "pac+ftp://proxy.example/proxy.pac",
    "pac+https://user:hunter2@proxy.example/proxy.pac",
    "http://proxy.example/path",
    "http://proxy.example?x",
    "http://user:hunter2@proxy.example:1/x",
    "nonsense",
  ];
  for (const url of [...wrong, "http://user:hunter2@proxy.example"]) {
    const error = await assertRejects(() => readProxies({ url }), SbxError);
    assertEquals(error.code, "network.proxy.invalid");
    assert(!error.message.includes("hunter2"), error.message);
  }
  const error = await assertRejects(
    () => readProxies({}, env({ HTTPS_PROXY: "socks4://user:hunter2@proxy.example" })),
    SbxError,
    "HTTPS_PROXY",
  );
  assert(!error.message.includes("hunter2"), error.message);
});

Deno.test("the password comes from a file that nobody else can change or read", async () => {
  const dir = await Deno.makeTempDir();
  const path = join(dir, "auth");
  const read = () => readProxies({ url: "http://proxy.example:1", auth_file: path });
  try {
    await Deno.writeTextFile(path, "user:pass:word\n", { mode: 0o600 });
    assertEquals((await read()).https?.user, { username: "user", password: "pass:word" });
    for (const text of ["", "user", ":password", "user:a\nb", "user:\x00"]) {
      await Deno.writeTextFile(path, text);
      await assertRejects(read, SbxError, "USER:PASSWORD");
    }
    await Deno.writeTextFile(path, "user:password");
    await Deno.chmod(path, 0o622);
    await assertRejects(read, SbxError, "by other users");
    await Deno.remove(path);
    await assertRejects(read, SbxError, "USER:PASSWORD");
    await assertRejects(() => readProxies({ url: "http://p:1", auth_file: "auth" }), SbxError, "absolute");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("entries that can match no host are named, with what to write instead", () => {
  const cases: [entry: string, problem: RegExp][] = [
    ["10.0.0.0/33", /write a network as 192/],
    ["https://a.com", /without a scheme/],
    ["a.com;b.com", /commas/],
    ["a.com b.com", /commas/],
    ["*corp.com", /write a name/],
    ["a.*.com", /write a name/],
    ["10.*", /write a network/],
    ["10.", /write a name, an address/],
    ["10.1", /write a name, an address/],
    ["a.com:0", /port/],
    ["a.com:99999", /port/],
    ["a.com:http", /write a name/],
    ["a.com/x", /write a network/],
    ["-", /write a name/],
  ];
  for (const [entry, problem] of cases) {
    const { problems } = new NoProxy(["good.example", entry]);
    assertEquals(problems.length, 1, entry);
    assertStringIncludes(problems[0], `"${entry}" matches no host`);
    assertMatch(problems[0], problem);
  }
});
