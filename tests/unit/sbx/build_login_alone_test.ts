/** Docker's logins that builds lend their VM, at the service's routes and with a store of their own. */
import { assertEquals } from "@std/assert";
import { Hono } from "hono";
import { join } from "node:path";
import { routeCredentials } from "../../../cmd/service/routes/credentials.ts";
import { lendLogins } from "../../../cmd/sbx/vm/build_login.ts";
import type { SbxError } from "../../../lib/base/error/mod.ts";
import { home } from "../../../lib/base/home/mod.ts";
import type { Client } from "../../../lib/client/mod.ts";
import { CredentialStore, storePath } from "../../../lib/credential/mod.ts";
import { SecretPrograms } from "../../../lib/service/mod.ts";

const VM = { id: "vm-a", name: "builder-app-1" };
const PLAN = {
  args: {},
  logins: [],
  context: {
    dir: "/app",
    name: "app",
    dockerfile: "FROM one.example/a\nFROM two.example/b\n",
    entries: [],
    files: new Map(),
  },
} as unknown as Parameters<typeof lendLogins>[2];

Deno.test("a build renews its logins: not one that was revoked, and no other build takes them", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-lent-" });
  const before = Deno.env.get("DOCKER_CONFIG");
  const login = { auth: btoa("me:password-of-a-registry") };
  const auths = { "one.example": login, "two.example": login };
  await Deno.writeTextFile(join(dir, "config.json"), JSON.stringify({ auths }));
  Deno.env.set("DOCKER_CONFIG", dir);
  const place = home({ get: (name) => name === "SBX_HOME" ? dir : undefined });
  const store = new CredentialStore(storePath(place));
  const app = new Hono();
  app.onError((error) => {
    throw error;
  });
  const secrets = new SecretPrograms(place, { alive: () => [] });
  routeCredentials(app, place, { secrets, runningVms: () => Promise.resolve([]) });
  const client = {
    async json<T>(method: string, path: string, { json }: { json?: unknown } = {}): Promise<T> {
      const headers = { "content-type": "application/json" };
      const body = json === undefined ? {} : { body: JSON.stringify(json), headers };
      return await (await app.request(path, { method, ...body })).json();
    },
  } as Pick<Client, "json">;
  const hosts = () => store.list().map(({ hosts }) => hosts![0]).sort();
  const until = (ref: string) => Date.parse(store.list().find((entry) => entry.ref === ref)!.loan!.until);
  try {
    const first = await lendLogins(client, VM, PLAN);
    assertEquals(hosts(), ["one.example", "two.example"]);
    const [one, two] = first.logins.map(({ ref }) => ref);

    const second = await lendLogins(client, VM, PLAN);
    assertEquals(hosts().length, 4, "each build has its own");
    await second[Symbol.asyncDispose]();
    assertEquals(store.list().map(({ ref }) => ref).sort(), [one, two].sort());

    await store.revoke(one);
    const lent = until(two);
    await first.renew();
    assertEquals(hosts(), ["two.example"], "the revoked one stays revoked, the other one is renewed");
    assertEquals(until(two) > lent, true);
    await first.renew();
    assertEquals(hosts(), ["two.example"]);
    await first[Symbol.asyncDispose]();
    assertEquals(hosts(), []);
  } finally {
    if (before === undefined) Deno.env.delete("DOCKER_CONFIG");
    else Deno.env.set("DOCKER_CONFIG", before);
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a loan that is over, and one that never was, are not renewed", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-lent-" });
  try {
    const store = new CredentialStore(join(dir, "store.json"));
    const loan = (ms: number, id: string) => ({ until: new Date(Date.now() + ms).toISOString(), id });
    const credential = { provider: "registry", secret: "password-of-a-registry", hosts: ["one.example"] };
    const renewed = async (id: string) => {
      const renewal = { ...credential, only: VM.id, loan: loan(86_400_000, id), renews: true };
      return await store.add([renewal]).then(() => true, (error: SbxError) => error.code);
    };
    await store.add([{ ...credential, only: VM.id, loan: loan(86_400_000, "a") }]);
    assertEquals(await renewed("a"), true);
    assertEquals(await renewed("b"), "credential.not_found");
    const [entry] = store.list();
    const { secret } = credential;
    await store.put(() => ({ put: [{ entry: { ...entry, loan: loan(-1, "a") }, secret }] }));
    assertEquals(await renewed("a"), "credential.not_found");
    assertEquals(store.list(), []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
