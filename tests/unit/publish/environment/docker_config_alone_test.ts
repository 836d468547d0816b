/** Logins in Docker's configuration of this machine, with real helpers in a folder of the test's own. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { authFile, findLogin } from "../../../../lib/publish/environment/docker_config.ts";
import { parseReference } from "../../../../lib/release/environment/mod.ts";

type Find = (reference: string, config: unknown, file?: string) => ReturnType<typeof findLogin>;

/** A helper gets a server in standard input, and answers with a login, or says that it has none. */
const HELPER = `#!/bin/sh
read -r server || :
case $server in
  registry.example) echo '{"ServerURL":"registry.example","Username":"me","Secret":"from-the-helper"}' ;;
  https://index.docker.io/v1/) echo '{"Username":"hub","Secret":"from-the-hub"}' ;;
  token.example) echo '{"Username":"<token>","Secret":"identity"}' ;;
  broken.example) echo 'secret-of-the-vault is locked'; exit 1 ;;
  odd.example) echo '["me"]' ;;
  *) echo 'credentials not found in native keychain'; exit 1 ;;
esac
`;

async function inHome(work: (find: Find, home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir({ prefix: "sbx-docker-config-" });
  const before = Deno.env.get("PATH")!;
  try {
    await Deno.mkdir(join(home, ".docker"));
    await Deno.mkdir(join(home, "bin"));
    await Deno.writeTextFile(join(home, "bin/docker-credential-sbx-test"), HELPER, { mode: 0o755 });
    Deno.env.set("PATH", `${join(home, "bin")}:${before}`);
    await work(async (reference, config, file = ".docker/config.json") => {
      await Deno.mkdir(join(home, file, ".."), { recursive: true });
      await Deno.writeTextFile(
        join(home, file),
        typeof config === "string" ? config : JSON.stringify(config),
      );
      return await findLogin(parseReference(reference), {
        get: (name) => name === "HOME" ? home : undefined,
      });
    }, home);
  } finally {
    Deno.env.set("PATH", before);
    await Deno.remove(home, { recursive: true });
  }
}

const of = (user: string, password: string) => ({ auth: btoa(`${user}:${password}`) });

Deno.test("a login is found by the registry's name, in the spellings that Docker writes", () =>
  inHome(async (find) => {
    const login = { registry: "registry.example:5000", user: "me", password: "pass:word", isToken: false };
    for (
      const key of [
        "registry.example:5000",
        "https://registry.example:5000",
        "https://registry.example:5000/v2/",
      ]
    ) {
      assertEquals(
        await find("registry.example:5000/a/b:1", { auths: { [key]: of("me", "pass:word") } }),
        login,
      );
    }
    const hub = { auths: { "https://index.docker.io/v1/": of("me", "hub") } };
    assertEquals((await find("golang:1.25", hub))?.registry, "docker.io");
    assertEquals(await find("other.example/a:1", hub), undefined);
    // Only a whole name of a host, and of a part of a path.
    assertEquals(
      await find("registry.example.evil/a:1", { auths: { "registry.example": of("me", "x") } }),
      undefined,
    );
    const parts = { auths: { "quay.example": of("all", "a"), "quay.example/team": of("team", "t") } };
    assertEquals((await find("quay.example/team/app:1", parts))?.user, "team");
    assertEquals((await find("quay.example/teams/app:1", parts))?.user, "all");
    assertEquals(await find("oci:/tmp/x", parts), undefined);
  }));

Deno.test("a helper for a registry goes before the store, and the store before the file", () =>
  inHome(async (find) => {
    const own = { "registry.example": of("file", "from-the-file"), "https://index.docker.io/v1/": {} };
    const store = { auths: own, credsStore: "sbx-test" };
    assertEquals(await find("registry.example/a:1", store), {
      ...{ registry: "registry.example", user: "me", password: "from-the-helper", isToken: false },
    });
    assertEquals((await find("golang:1", store))?.password, "from-the-hub");
    // The file may have it all the same.
    const more = { auths: { "else.example": of("file", "from-the-file") }, credsStore: "sbx-test" };
    assertEquals((await find("else.example/a:1", more))?.password, "from-the-file");
    const helper = { ...store, credHelpers: { "registry.example": "absent-of-the-test" } };
    const error = await assertRejects(() => find("registry.example/a:1", helper), SbxError);
    assertStringIncludes(error.message, "docker-credential-absent-of-the-test");
    assertEquals((await find("golang:1", helper))?.password, "from-the-hub");
    // The file of podman is read first.
    const podman = { auths: { "docker.io": of("podman", "p") } };
    assertEquals((await find("golang:1", podman, ".config/containers/auth.json"))?.user, "podman");
  }));

Deno.test("an identity token is written as one for skopeo", () =>
  inHome(async (find) => {
    const login = await find("token.example/a:1", { credsStore: "sbx-test" });
    assertEquals(login?.isToken, true);
    assertEquals(JSON.parse(authFile(login!)).auths["token.example"].identitytoken, "identity");
    const stored = await find("x.example/a:1", {
      auths: { "x.example": { identitytoken: "abc", auth: "" } },
    });
    assertEquals([stored?.isToken, stored?.password], [true, "abc"]);
  }));

Deno.test("a broken configuration or helper is named, without anything that it holds", () =>
  inHome(async (find, home) => {
    const bad: [string, unknown, string][] = [
      ["registry.example/a:1", "{", "config.json"],
      ["registry.example/a:1", "[", "config.json"],
      ["broken.example/a:1", { credsStore: "sbx-test" }, "docker-credential-sbx-test gave no login"],
      ["odd.example/a:1", { credsStore: "sbx-test" }, "gave no login"],
      [
        "registry.example/a:1",
        { credHelpers: { "registry.example": "../../bin/evil" } },
        "names no credential helper",
      ],
      ["registry.example/a:1", { auths: { "registry.example": { auth: "%%" } } }, "not base64"],
    ];
    for (const [reference, config, text] of bad) {
      const error = await assertRejects(() => find(reference, config), SbxError);
      assertEquals(error.code, "environment.login");
      assertStringIncludes(error.message, text);
      assertEquals(`${error.message}${error.hint}`.includes("secret-of-the-vault"), false);
    }
    await Deno.remove(join(home, ".docker/config.json"));
    await Deno.symlink("/dev/zero", join(home, ".docker/config.json"));
    const env = { get: (name: string) => name === "HOME" ? home : undefined };
    await assertRejects(() => findLogin(parseReference("registry.example/a:1"), env), SbxError);
  }));
