/** Secrets of sinks: they are in the credential store, and nowhere else. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CorpFile } from "../../../lib/config/corp/mod.ts";
import { CredentialStore, sinkAuthorization, storePath } from "../../../lib/credential/mod.ts";
import { FindingSinks } from "../../../lib/ledger/sink/mod.ts";
import { requestEvent } from "../../helper/ledger.ts";
import { withSettings } from "../../helper/settings_store.ts";

const SECRET = "collector-secret-5f1c";

async function inHome(run: (home: { dir: string }, store: CredentialStore) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run({ dir }, new CredentialStore(storePath({ dir }, { get: () => undefined })));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test(
  "a secret in a retired setting is in no answer; the file holds, and says what to do",
  withSettings({
    settings: `[settings."telemetry.api_key"]\nvalue = "${SECRET}"\n` +
      `[settings."telemetry.password"]\nvalue = "${SECRET}"\n` +
      '[settings."appearance.theme"]\nvalue = "dark"\n',
  }, async ({ open, settings }) => {
    const store = await open();
    assert(!new TextDecoder().decode(store.infoBytes().json).includes(SECRET));
    assertEquals(store.value("appearance.theme"), "dark");
    const { issues } = store.info();
    assertEquals(issues.map(({ id, severity }) => [id, severity]), [
      ["telemetry.api_key", "warning"],
      ["telemetry.password", "warning"],
    ]);
    for (const { message } of issues) assertStringIncludes(message, "sbx credentials add mcp --host HOST");
    const error = await assertRejects(() => store.edit({ "telemetry.api_key": SECRET }), Error, "is retired");
    assert(!error.message.includes(SECRET));
    await store.edit({ "telemetry.api_key": null, "telemetry.password": null });
    assert(!(await Deno.readTextFile(settings)).includes(SECRET));
  }),
);

Deno.test("a password in the address of a sink is refused, in corp.toml and in the settings", async () => {
  for (const key of ["sigma_output_endpoint", "open_telemetry"]) {
    const { error } = CorpFile.safeParse({ corp_rule_files: { [key]: `https://u:${SECRET}@siem.example/` } });
    assertStringIncludes(error!.issues[0].message, "without a user or password");
  }
  await withSettings({
    settings: `[settings."telemetry.endpoint"]\nvalue = "https://u:${SECRET}@siem.example/"\n`,
  }, async ({ open }) => {
    const store = await open();
    assertEquals(store.value("telemetry.endpoint"), "");
    assert(!new TextDecoder().decode(store.infoBytes().json).includes(SECRET));
  })();
});

Deno.test("a sink gets the secret behind its ref, and no queue or message has it", () =>
  inHome(async (home, store) => {
    const got: (string | null)[] = [];
    let status = 500;
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
      await request.body?.cancel();
      got.push(request.headers.get("authorization"));
      return new Response(null, { status });
    });
    const [{ ref }] = await store.add([{ provider: "mcp", secret: SECRET, hosts: ["127.0.0.1"] }]);
    const endpoint = `http://127.0.0.1:${server.addr.port}/`;
    const problems: string[] = [];
    const sinks = await FindingSinks.open({
      dir: join(home.dir, "sinks"),
      http: { endpoint, authorize: sinkAuthorization(home, { credential_ref: ref }) },
      otlp: { endpoint, authorize: sinkAuthorization(home, { credential_ref: ref, user: "ada" }) },
      backoff: { firstMs: 5, maxMs: 5 },
      onProblem: (message) => problems.push(message),
    });
    const event = requestEvent("http.request");
    const { event_id } = event.common;
    const rest = { title: "T", severity: "low" as const, confidence: "low" as const, tags: [] };
    sinks.send({ finding_id: "finding-1", event_id, rule_id: "r", pack_id: "p", ...rest }, event);
    while (new Set(got).size < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    const files = await Array.fromAsync(walk(join(home.dir, "sinks")), (path) => Deno.readTextFile(path));
    assert(files.join("").includes("finding-1"));
    for (const text of [...files, ...problems, JSON.stringify(sinks.status())]) {
      assert(!text.includes(SECRET));
    }

    // Revoked: not sent again, though the finding still waits.
    await store.revoke(ref);
    const isDenied = ({ last_error }: { last_error: string | null }) => last_error?.includes("revoked");
    while (!sinks.status().every(isDenied)) await new Promise((resolve) => setTimeout(resolve, 5));
    const before = got.length;
    status = 204;
    await sinks.close(50);
    assertEquals(got.length, before);
    assertEquals([...new Set(got)].toSorted(), [`Basic ${btoa(`ada:${SECRET}`)}`, `Bearer ${SECRET}`]);
    await server.shutdown();
  }));

Deno.test("a sink's secret goes to its own host only, and never over plain http to another machine", () =>
  inHome(async (home, store) => {
    const [{ ref }] = await store.add([{ provider: "mcp", secret: SECRET, hosts: ["siem.example"] }]);
    const authorize = sinkAuthorization(home, { credential_ref: ref });
    assertEquals(await authorize(new URL("https://siem.example/in")), `Bearer ${SECRET}`);
    for (const url of ["https://other.example/", "http://siem.example/"]) {
      const error = await assertRejects(() => authorize(new URL(url)), Error);
      assert(!error.message.includes(SECRET));
    }
    const unknown = sinkAuthorization(home, { credential_ref: `credential:blake3:${"0".repeat(64)}` });
    await assertRejects(() => unknown(new URL("https://siem.example/")), Error, "unknown ref");
  }));

async function* walk(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory, isFile } of Deno.readDir(dir)) {
    if (isDirectory) yield* walk(join(dir, name));
    else if (isFile) yield join(dir, name);
  }
}
