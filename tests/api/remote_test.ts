/** The CLI with the gateway of another machine, by HTTPS to a server in front of it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";
import { Place } from "./cli_harness.ts";

/** A server that ends TLS in front of a gateway, as a person would set one up. */
async function frontOf(place: Place): Promise<{ origin: string; caFile: string; close(): Promise<void> }> {
  const folder = join(place.dir, "front");
  await Deno.mkdir(folder);
  const ca = await openCa({ dir: folder });
  const { cert, key } = await ca.leaf("localhost");
  const port = (await Deno.readTextFile(place.home.gatewayPortFile)).trim();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, cert, key, onListen() {} }, (request) => {
    const { pathname, search } = new URL(request.url);
    const headers = new Headers(request.headers);
    headers.delete("host");
    const { method, body } = request;
    return fetch(`http://127.0.0.1:${port}${pathname}${search}`, {
      method,
      headers,
      body,
      redirect: "manual",
    });
  });
  return {
    origin: `https://localhost:${server.addr.port}`,
    caFile: join(folder, "ca/ca.crt"),
    close: () => server.shutdown(),
  };
}

Deno.test("--host: commands go to the gateway of another machine, with a token from a file", async (t) => {
  await using there = await Place.make();
  await there.sbx(["list"]);
  const { origin, caFile, close } = await frontOf(there);
  const here = await Deno.makeTempDir({ prefix: "sbx-here-" });
  const tokenFile = join(here, "token");
  await Deno.copyFile(there.home.gatewayTokenFile, tokenFile);
  await Deno.chmod(tokenFile, 0o600);
  const env = {
    SBX_HOME: here,
    SBX_RUN_DIR: join(here, "run"),
    SBX_TOKEN_FILE: tokenFile,
    SBX_CA_FILE: caFile,
  };
  const sbx = (args: string[], more: Record<string, string> = {}) =>
    there.sbx(args, { env: { ...env, ...more } });
  try {
    await t.step("requests and answers pass", async () => {
      const listed = await sbx(["--host", origin, "list", "--json"]);
      assertEquals([listed.code, JSON.parse(listed.stdout).vms[0].name, listed.stderr], [0, "demo", ""]);
      const ran = await sbx([`--host=${origin}`, "exec", "demo", "--", "true"]);
      assertEquals([ran.code, ran.stderr], [7, "err\n"]);
      const named = await sbx(["info", "demo", "--json"], { SBX_HOST: origin });
      assertEquals(JSON.parse(named.stdout).name, "demo");
    });

    await t.step("nothing is started or written here", () => {
      assertEquals(Array.from(Deno.readDirSync(here), ({ name }) => name), ["token"]);
    });

    await t.step("what is of this machine is refused", async () => {
      for (
        const [args, what] of [
          [["status"], "sbx status works on this machine only"],
          [["image", "list"], "sbx image works on this machine only"],
          [["settings", "edit"], "sbx settings edit opens settings.toml"],
          [["create", "x", "--live", "."], "--live ."],
        ] as [string[], string][]
      ) {
        const { code, stderr } = await sbx(["--host", origin, ...args]);
        assertEquals(code, 1, args.join(" "));
        assertStringIncludes(stderr, what);
      }
    });

    await t.step("a token that is wrong, missing, or open to others", async () => {
      await Deno.chmod(tokenFile, 0o644);
      assertStringIncludes((await sbx(["--host", origin, "list"])).stderr, `chmod 600 ${tokenFile}`);
      await Deno.chmod(tokenFile, 0o600);
      assertStringIncludes(
        (await sbx(["--host", origin, "list"], { SBX_TOKEN_FILE: "" })).stderr,
        "SBX_TOKEN_FILE",
      );
      await Deno.writeTextFile(tokenFile, "0".repeat(64));
      const { code, stderr } = await sbx(["--host", origin, "list"]);
      assertEquals(code, 1);
      assertStringIncludes(stderr, "token");
      assertEquals(stderr.includes("0".repeat(64)), false);
    });

    await t.step("a server that the authorities do not vouch for is refused", async () => {
      const { code, stderr } = await sbx(["--host", origin, "list"], { SBX_CA_FILE: "" });
      assertEquals(code, 1);
      assertStringIncludes(stderr, `no answer at ${origin}`);
    });

    await t.step("addresses that are none, or hold a secret", async () => {
      for (
        const address of [
          ...[
            "http://127.0.0.1:1",
            "build.example",
            "ssh://-oProxyCommand=x",
            "ssh://me:secret@build.example",
          ],
          ...["https://me@build.example", "https://build.example/path", "ssh://-l@build.example"],
        ]
      ) {
        const { code, stderr } = await sbx(["--host", address, "list"]);
        assertEquals(code, 1, address);
        assertStringIncludes(stderr, "sbx --host ssh://me@build.example list");
        assertEquals(stderr.includes("secret"), false);
      }
      assertEquals((await sbx(["--host"])).code, 2);
    });
  } finally {
    await close();
    await Deno.remove(here, { recursive: true });
  }
});
