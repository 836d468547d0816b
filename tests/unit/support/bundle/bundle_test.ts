import { assert, assertEquals } from "@std/assert";
import { dirname, join } from "node:path";
import { zstdDecompressSync } from "node:zlib";
import { blake3 } from "../../../../lib/base/hash/mod.ts";
import type { Home } from "../../../../lib/base/home/mod.ts";
import { collectBundle, writeBundle } from "../../../../lib/support/bundle/mod.ts";
import { CredentialStore, storePath } from "../../../../lib/credential/mod.ts";
import { debugReport, stateFromDisk } from "../../../../lib/support/debug/mod.ts";
import { hostReport } from "../../../../lib/support/doctor/host/mod.ts";
import { Ledger } from "../../../../lib/ledger/mod.ts";
import { sessionPaths, writeRecord, writeState } from "../../../../lib/session/mod.ts";
import { withHealthyHome, writeFile } from "../../../helper/debug_home.ts";
import { requestEvent } from "../../../helper/ledger.ts";
import { recordOf } from "../../../helper/vm.ts";

const ID = "8f14e45f-ceea-467f-a9b6-2c1d0e5b7a11";

async function bundleOf(home: Home, session?: string) {
  const [report, doctor] = await Promise.all([
    stateFromDisk(home).then((live) => debugReport(home, live)),
    hostReport(home),
  ]);
  return await collectBundle(home, { report, doctor, ...(session && { session }) });
}

/** Writes a bundle and unpacks it with the system's tar. @returns texts by path */
async function unpacked(
  home: Home,
  bundle: Awaited<ReturnType<typeof bundleOf>>,
): Promise<Map<string, string>> {
  const path = join(home.dir, "b.tar.zst");
  await writeBundle(path, bundle);
  assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
  const dir = join(home.dir, "unpacked");
  await Deno.mkdir(dir);
  await Deno.writeFile(join(home.dir, "b.tar"), zstdDecompressSync(await Deno.readFile(path)));
  const { success } = await new Deno.Command("tar", { args: ["-xf", join(home.dir, "b.tar"), "-C", dir] })
    .output();
  assert(success, "tar reads it");
  const texts = await Promise.all(bundle.files.map(async ({ path }): Promise<[string, string]> => [
    path,
    await Deno.readTextFile(join(dir, "sbx-support", path)),
  ]));
  return new Map(texts);
}

async function failSession(home: Home): Promise<void> {
  const paths = sessionPaths(home, ID);
  await Deno.mkdir(paths.logs, { recursive: true });
  await writeRecord(paths, recordOf(ID, "worker"));
  await writeState(paths, {
    state: "Defunct",
    boot_stages: [],
    pid: 0,
    last_error: "QEMU ended with signal 9",
  });
}

Deno.test("a bundle tells which host, what failed and why, and its manifest has the hash of each file", () =>
  withHealthyHome(async (home) => {
    await failSession(home);
    await Deno.remove(join(home.assetsDir, "manifest.json"));
    const bundle = await bundleOf(home, ID);
    const texts = await unpacked(home, bundle);
    const readme = texts.get("README.txt")!;
    assert(readme.includes(`Host: ${Deno.build.os} ${Deno.osRelease()}, ${Deno.build.arch}`), readme);
    assert(/- assets: no VM assets are installed; to mend it: sbx image build code/.test(readme), readme);
    assert(readme.includes('- VM "worker": QEMU ended with signal 9'), readme);
    assert(readme.includes(ID), readme);
    const manifest = JSON.parse(texts.get("manifest.json")!);
    assertEquals(manifest.schema, "sbx.support-bundle.v1");
    assertEquals(manifest.files.length, texts.size - 1);
    for (const { path, blake3: hash } of manifest.files) assertEquals(blake3(texts.get(path)!), hash, path);
    assertEquals(JSON.parse(texts.get("session/state.json")!).last_error, "QEMU ended with signal 9");
  }));

Deno.test("the README of a VM that failed ends with its console, and says each thing once", () =>
  withHealthyHome(async (home) => {
    await failSession(home);
    const secret = `sk-ant-api03-${"Zq7w".repeat(20)}`;
    const panic = "Kernel panic - not syncing: no root";
    await writeFile(
      join(sessionPaths(home, ID).logs, "console.log"),
      `${"early\r\n".repeat(100)}\x1b[2J${secret}\r\n[ 4.1] ${panic}\r\n\r\n`,
    );
    const readme = (await unpacked(home, await bundleOf(home, ID))).get("README.txt")!;
    const [, words] = readme.split("The last lines of its console:\n");
    assertEquals(words.split("\n\n")[0].split("\n").slice(-2), ["    �[2J[redacted]", `    [ 4.1] ${panic}`]);
    assertEquals(words.split("early").length - 1, 38);
    assertEquals(readme.split("QEMU ended with signal 9").length - 1, 1);
    const { files } = await bundleOf(home);
    const { bytes } = files.find(({ path }) => path === "README.txt")!;
    const without = new TextDecoder().decode(bytes);
    assert(!without.includes(panic) && without.includes("sbx support-bundle --session NAME"), without);
  }));

Deno.test("no secret that a user planted anywhere is in a bundle", () =>
  withHealthyHome(async (home) => {
    await failSession(home);
    const secret = `sk-ant-api03-${"Zq7w".repeat(20)}`;
    const word = "correct-horse-battery";
    const token = `glpat-${"k3Jd9".repeat(5)}`;
    const paths = sessionPaths(home, ID);
    await new CredentialStore(storePath(home)).add([{ provider: "anthropic", secret }, {
      provider: "github",
      secret: word,
    }]);
    await writeRecord(paths, {
      ...recordOf(ID, "worker"),
      env: { MY_PASSWORD: "hunter2hunter2", A: secret },
    });
    await writeFile(
      join(home.dir, "settings.toml"),
      `# ${secret}\n[settings."vm.environment.X"]\nvalue = "${word}"\n[settings."ai.anthropic.api_key"]\nvalue = "plainkey1"\n`,
    );
    await writeFile(
      join(home.profilesDir, "mine/profile.toml"),
      `description = "${token} of bob@example.com"\n`,
    );
    await writeFile(
      join(home.logsDir, "service.log"),
      `a ${secret.slice(0, 20)}\n  ${secret.slice(20)}\n${btoa(secret)}\n`,
    );
    await writeFile(
      join(paths.logs, "console.log"),
      `-----BEGIN PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5PUFFSU1RVVldY\n-----END PRIVATE KEY-----\n/home/carol/x\n`,
    );
    for (const name of [token, `${token.slice(0, -1)}Z`]) {
      await writeFile(join(paths.logs, `${name}.log`), `log ${name}\n`);
    }
    await Deno.mkdir(dirname(paths.ledger), { recursive: true });
    await using ledger = await Ledger.open(paths.ledger, { sessionId: ID });
    ledger.append({
      event: requestEvent("http.request", {
        path: `/x/${token}`,
        query: `key=${word}`,
        headers: [["x-api-key", "seen-in-a-header"]],
        body: { state: "text", text: "seen-in-a-body", size: 14, truncated: false },
      }),
    });
    await ledger.flush();
    const bundle = await bundleOf(home, ID);
    const texts = await unpacked(home, bundle);
    const all = [...texts].flat().join("\n");
    const planted = [
      secret,
      secret.slice(20),
      btoa(secret),
      word,
      token,
      "hunter2hunter2",
      "plainkey1",
      "bob@example.com",
      "QUJDREVG",
      "carol",
      "seen-in-a-header",
      "seen-in-a-body",
    ];
    for (const part of planted) assert(!all.includes(part), `${part} is in the bundle`);
    assert(all.includes('"event_type": "http.request"'), all.slice(-3000));
    assertEquals([...texts.keys()].filter((path) => path.includes("[redacted]")).length, 2);
  }));

Deno.test("a bundle has the last events of a long record, in their order", () =>
  withHealthyHome(async (home) => {
    await failSession(home);
    const { ledger: path } = sessionPaths(home, ID);
    await Deno.mkdir(dirname(path), { recursive: true });
    await using ledger = await Ledger.open(path, { sessionId: ID });
    for (let at = 0; at < 5003; at++) {
      ledger.append({ event: requestEvent("http.request", { path: `/${at}` }) });
    }
    await ledger.flush();
    const texts = await unpacked(home, await bundleOf(home, ID));
    const { events } = JSON.parse(texts.get("session/events.json")!);
    const paths = events.map(({ http }: { http: { request: { path: string } } }) => http.request.path);
    assertEquals([paths.length, paths[0], paths.at(-1)], [5000, "/3", "/5002"]);
  }));

Deno.test("a bundle that cannot be written leaves nothing, and an earlier one as it was", () =>
  withHealthyHome(async (home) => {
    const bundle = await bundleOf(home);
    const folder = join(home.dir, "out");
    await Deno.mkdir(join(folder, "b.tar.zst/x"), { recursive: true });
    await writeBundle(join(folder, "b.tar.zst"), bundle).then(() => assert(false, "written"), () => {});
    assertEquals(await Array.fromAsync(Deno.readDir(folder), ({ name }) => name), ["b.tar.zst"]);
  }));
