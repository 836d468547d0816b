/** SSH keys of the store: who may use them where, their files, agents that lie, and what the API takes. */
import { assert, assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "node:path";
import { CredentialBroker, CredentialStore, type NewCredential } from "../../../lib/credential/mod.ts";
import {
  agentKeys,
  checkSignature,
  isSshSecret,
  parsePublicKey,
  publicKeyOf,
  signPlain,
  signWithAgent,
  sshSignature,
  string,
} from "../../../lib/base/ssh/mod.ts";
import { readSshSecret, signLogin } from "../../../lib/credential/ssh/mod.ts";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { CredentialAdd } from "../../../lib/client/api/mod.ts";
import { CredentialDenied } from "../../../lib/network/mod.ts";
import { newCredential, sshTerms } from "../../../lib/service/mod.ts";
import { runChild } from "../../helper/child.ts";
import { publicLine, sshKey } from "../../helper/sshd.ts";

const DATA = new TextEncoder().encode("data to sign");
const ED25519 = { algorithm: "ssh-ed25519" };

async function withFolder(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "sbx-ssh-key-" });
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("keys of every format and type are read, and sign", () =>
  withFolder(async (dir) => {
    const kinds = [
      ["-t", "ed25519"],
      ...["256", "384", "521"].map((bits) => ["-t", "ecdsa", "-b", bits]),
      ["-t", "ecdsa", "-b", "256", "-m", "PKCS8"],
      ["-t", "rsa", "-b", "2048"],
      ["-t", "rsa", "-b", "2048", "-m", "PEM"],
      ["-t", "rsa", "-b", "2048", "-m", "PKCS8"],
      // A key whose number begins with a zero is written in another way: half of them.
      ...Array.from({ length: 6 }, () => ["-t", "ecdsa", "-b", "384"]),
    ];
    for (const [at, args] of kinds.entries()) {
      const path = await sshKey(dir, `key${at}`, ...args);
      const secret = await readSshSecret(await Deno.readTextFile(path));
      const line = await publicLine(path);
      assertEquals(publicKeyOf(secret).line, line, args.join(" "));
      const { type, fingerprint } = parsePublicKey(line)!;
      const { stdout } = await runChild("ssh-keygen", { args: ["-l", "-f", path] });
      assertStringIncludes(new TextDecoder().decode(stdout), fingerprint);
      for (const algorithm of type === "ssh-rsa" ? ["rsa-sha2-256", "rsa-sha2-512"] : [type]) {
        const signature = sshSignature(signPlain(secret, DATA, algorithm), algorithm);
        assert(checkSignature(publicKeyOf(secret), DATA, algorithm, signature));
        assertThrows(() => signPlain(secret, DATA, "ssh-rsa"), Error, "is not used");
      }
    }
    const long = await sshKey(dir, "long", "-t", "rsa", "-b", "4096");
    assert(isSshSecret(await readSshSecret(await Deno.readTextFile(long))));
  }));

Deno.test("a key with a passphrase needs it, and what is no key is refused", () =>
  withFolder(async (dir) => {
    for (const [at, args] of [["-t", "ed25519"], ["-t", "rsa", "-b", "2048", "-m", "PEM"]].entries()) {
      const path = await sshKey(dir, `locked${at}`, ...args, "-N", "correct horse");
      const text = await Deno.readTextFile(path);
      const locked = await assertRejects(() => readSshSecret(text), SbxError);
      assertEquals(locked.code, "credential.locked");
      const wrong = await assertRejects(() => readSshSecret(text, "other"), SbxError);
      assertEquals(wrong.message, "the passphrase does not open the key");
      assertEquals(publicKeyOf(await readSshSecret(text, "correct horse")).line, await publicLine(path));
    }
    const short = await sshKey(dir, "short", "-t", "rsa", "-b", "1024");
    await assertRejects(
      async () => readSshSecret(await Deno.readTextFile(short)),
      SbxError,
      "fewer than 2048 bits",
    );
    await assertRejects(() => readSshSecret("ssh-ed25519 AAAA"), SbxError, "no private key");
    const broken = "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n";
    await assertRejects(() => readSshSecret(broken), SbxError, "cannot be read");
    for (const line of ["ssh-ed25519 AAAA", "ssh-dss AAAA", "ssh-ed25519", "x"]) {
      assertEquals(parsePublicKey(line), undefined, line);
    }
    const line = await publicLine(await sshKey(dir, "ed"));
    assertEquals(parsePublicKey(line.replace("ssh-ed25519", "ssh-rsa")), undefined);
    for (const secret of ["a-secret-of-ssh", btoa("not a key at all")]) {
      assertEquals(isSshSecret(secret), false);
    }
  }));

const SERVER = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

async function sshKeyCredential(
  dir: string,
  name: string,
  host: string,
  user = "git",
): Promise<NewCredential> {
  const secret = await readSshSecret(await Deno.readTextFile(await sshKey(dir, name)));
  const servers = [{ host, user, host_keys: [`ssh-ed25519 ${SERVER}`] }];
  return { provider: "ssh", secret, hosts: [host], ssh: { public_key: publicKeyOf(secret).line, servers } };
}

Deno.test("a key signs at its host and port for a VM that is granted it, and travels in no request", () =>
  withFolder(async (dir) => {
    const store = new CredentialStore(join(dir, "store.json"));
    const credential = await sshKeyCredential(dir, "a", "github.com:22");
    const token = { provider: "github", secret: `ghp_${"a1".repeat(18)}` };
    const [{ ref }] = await store.add([credential, token]);
    await using stack = new AsyncDisposableStack();
    const open = async (...providers: string[]) => {
      const broker = await CredentialBroker.open({ store, providers, vm: "vm-a" });
      stack.defer(() => broker.close());
      return broker;
    };
    const broker = await open("ssh", "github");
    assertEquals(broker.sshAccounts("github.com", 22).map(({ user }) => user), ["git"]);
    const login = broker.sshLogin(ref, "github.com", 22);
    assertEquals(login.substitution.location, "signature");
    assertEquals(await login.sign(DATA, "ssh-ed25519"), signLogin(credential.secret, DATA, "ssh-ed25519"));
    for (const [host, port] of [["github.com", 443], ["gitlab.com", 22]] as const) {
      assertEquals(broker.sshAccounts(host, port), []);
      assertThrows(() => broker.sshLogin(ref, host, port), CredentialDenied, "does not own");
    }
    // The key of SSH does not make its host one of the web.
    const to = { scheme: "https", host: "github.com", port: 443 };
    for (const header of [["authorization", `Bearer ${ref}`], ["x-api-key", ref]] as [string, string][]) {
      assertThrows(() => broker.inject(to, [[":path", "/"], header]), CredentialDenied, "does not own");
    }
    const at22 = { scheme: "https", host: "github.com", port: 22 };
    assertThrows(
      () => broker.inject(at22, [[":path", "/"], ["authorization", `Bearer ${ref}`]]),
      CredentialDenied,
      "do not travel here",
    );
    // Addresses for SSH lead to https only without a key for SSH.
    const urls = (env: Record<string, string>) =>
      Object.values(env).filter((each) => each.startsWith("git@"));
    assertEquals(urls(broker.guestEnv()), []);
    assertEquals(urls((await open("github")).guestEnv()), ["git@github.com:"]);
    const others = await open("github");
    assertEquals(others.sshAccounts("github.com", 22), []);
    assertThrows(() => others.sshLogin(ref, "github.com", 22), CredentialDenied, "not granted");
    const narrowed = await CredentialBroker.open({
      store,
      providers: ["ssh"],
      hosts: [{ ssh: ["gitlab.com"] }],
    });
    stack.defer(() => narrowed.close());
    assertThrows(() => narrowed.sshLogin(ref, "github.com", 22), CredentialDenied, "leaves out this host");
    await store.revoke(ref);
    assertEquals(broker.sshAccounts("github.com", 22), []);
    await assertRejects(() => login.sign(DATA, "ssh-ed25519"), CredentialDenied, "revoked");
    assert(login.released.aborted);
  }));

Deno.test("a key that is added again keeps its servers, and a changed entry does not open", () =>
  withFolder(async (dir) => {
    const store = new CredentialStore(join(dir, "store.json"));
    const first = await sshKeyCredential(dir, "a", "github.com:22");
    const at = (host: string, user: string) => ({
      ...first,
      hosts: [host],
      ssh: { ...first.ssh!, servers: [{ ...first.ssh!.servers[0], host, user }] },
    });
    await store.add([first, at("git.example.com:2222", "me"), at("github.com:22", "other"), first]);
    const [entry] = store.list();
    assertEquals(entry.ssh!.servers.map(({ host, user }) => `${user}@${host}`), [
      "me@git.example.com:2222",
      "other@github.com:22",
      "git@github.com:22",
    ]);
    const file = JSON.parse(await Deno.readTextFile(store.path));
    file.entries[0].ssh.servers[0].host_keys = [`ssh-ed25519 ${SERVER.replace("OMqq", "OMqr")}`];
    await Deno.writeTextFile(store.path, JSON.stringify(file), { mode: 0o600 });
    const broker = await CredentialBroker.open({
      store: new CredentialStore(store.path),
      providers: ["ssh"],
    });
    assertThrows(() => broker.sshLogin(entry.ref, "github.com", 22), CredentialDenied);
    await broker.close();
  }));

Deno.test("the API takes a private key or an agent, with the server's keys", () =>
  withFolder(async (dir) => {
    const path = await sshKey(dir, "a");
    const secret = await readSshSecret(await Deno.readTextFile(path));
    const host_keys = [`ssh-ed25519 ${SERVER}`];
    const add: CredentialAdd = {
      provider: "ssh",
      host: "github.com",
      secret,
      ssh: { user: "git", host_keys },
    };
    const made = newCredential(add, [], await sshTerms(add));
    assertEquals(made.hosts, ["github.com:22"]);
    assertEquals(made.ssh, {
      public_key: await publicLine(path),
      servers: [{ host: "github.com:22", user: "git", host_keys }],
    });
    const agent = { ...add.ssh!, agent: "/run/agent.sock", public_key: await publicLine(path) };
    const held = newCredential(
      { ...add, secret: undefined, ssh: agent },
      [],
      await sshTerms({ ...add, secret: undefined, ssh: agent }),
    );
    assertEquals(held.ssh!.agent, "/run/agent.sock");
    for (
      const wrong of [
        { ...add, secret: "a-secret-of-ssh" },
        { ...add, secret: undefined },
        { ...add, ssh: agent },
        { ...add, host: undefined },
        { ...add, decoy: true },
        { ...add, ssh: { user: "git", host_keys: ["ssh-ed25519 AAAA"] } },
      ] satisfies CredentialAdd[]
    ) {
      const error = await assertRejects(() => sshTerms(wrong), SbxError);
      assertEquals(error.code, "credential.invalid");
    }
    assertThrows(
      () => newCredential({ provider: "ssh", host: "github.com", secret }),
      SbxError,
      "needs the terms",
    );
    assertThrows(
      () => newCredential({ provider: "npm", secret: "a-secret-of-npm" }, [], made.ssh),
      SbxError,
      "has no SSH keys",
    );
  }));

// Agents.

Deno.test("an agent of OpenSSH lists its keys and signs with the chosen one", () =>
  withFolder(async (dir) => {
    const socket = join(dir, "agent");
    const agent = new Deno.Command("ssh-agent", {
      args: ["-D", "-a", socket],
      stdout: "piped",
      stderr: "null",
    }).spawn();
    try {
      // Its first line comes once the socket is there.
      await agent.stdout.getReader().read();
      const paths = [
        await sshKey(dir, "ed"),
        await sshKey(dir, "rsa", "-t", "rsa", "-b", "2048"),
        await sshKey(dir, "ec", "-t", "ecdsa", "-b", "521"),
      ];
      for (const path of paths) {
        const { success } = await runChild("ssh-add", { args: ["-q", path], env: { SSH_AUTH_SOCK: socket } });
        assert(success);
      }
      // ssh-add takes a key's certificate along, which is no key that a server is shown.
      const [authority, certified] = [await sshKey(dir, "authority"), await sshKey(dir, "certified")];
      paths.push(certified);
      for (
        const [program, ...args] of [
          ["ssh-keygen", "-q", "-s", authority, "-I", "ada", "-n", "ada", `${certified}.pub`],
          ["ssh-add", "-q", certified],
        ]
      ) assert((await runChild(program, { args, env: { SSH_AUTH_SOCK: socket } })).success, program);
      const keys = await agentKeys(socket);
      assertEquals(keys.map(({ key }) => key.line), await Promise.all(paths.map(publicLine)));
      for (const { key } of keys) {
        for (const algorithm of key.type === "ssh-rsa" ? ["rsa-sha2-256", "rsa-sha2-512"] : [key.type]) {
          assert((await signWithAgent(socket, key, DATA, { algorithm })).length > 0);
        }
      }
      const other = parsePublicKey(await publicLine(await sshKey(dir, "other")))!;
      await assertRejects(
        () => signWithAgent(socket, other, DATA, ED25519),
        SbxError,
        "does not hold the key",
      );
    } finally {
      agent.kill("SIGKILL");
      await agent.status;
    }
    await assertRejects(
      () => signWithAgent(join(dir, "none"), parsePublicKey(keysLine())!, DATA, ED25519),
      SbxError,
      "cannot be reached",
    );
    await assertRejects(() => agentKeys(join(dir, "ed")), SbxError, "is not a socket");
  }));

const keysLine = () => `ssh-ed25519 ${SERVER}`;

/** An agent that answers each request with these bytes; `undefined`: it ends the connection. */
async function lyingAgent(
  dir: string,
  answer: (request: Uint8Array) => Uint8Array | undefined | Promise<Uint8Array>,
): Promise<{ socket: string; close(): void }> {
  const socket = join(dir, crypto.randomUUID().slice(0, 8));
  const listener = Deno.listen({ transport: "unix", path: socket });
  const serve = async (conn: Deno.Conn) => {
    const buffer = new Uint8Array(65_536);
    const count = await conn.read(buffer);
    const bytes = count === null ? undefined : await answer(buffer.slice(0, count));
    if (bytes) await conn.write(bytes);
    conn.close();
  };
  (async () => {
    for await (const conn of listener) await serve(conn).catch(() => {});
  })();
  await Promise.resolve();
  return { socket, close: () => listener.close() };
}

/** A message of an agent behind its length. */
function message(type: number, content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(5 + content.length);
  new DataView(bytes.buffer).setUint32(0, 1 + content.length);
  bytes[4] = type;
  bytes.set(content, 5);
  return bytes;
}

Deno.test("a revoked key is not asked of its agent, and what an agent signed meanwhile is not used", () =>
  withFolder(async (dir) => {
    const store = new CredentialStore(join(dir, "store.json"));
    const credential = await sshKeyCredential(dir, "a", "github.com:22");
    let asked = 0;
    let onAsked: () => unknown = () => {};
    const signature = message(
      14,
      string(sshSignature(signPlain(credential.secret, DATA, "ssh-ed25519"), "ssh-ed25519")),
    );
    const agent = await lyingAgent(dir, async () => {
      asked++;
      await onAsked();
      return signature;
    });
    using _agent = { [Symbol.dispose]: agent.close };
    const held = {
      ...credential,
      secret: crypto.randomUUID(),
      ssh: { ...credential.ssh!, agent: agent.socket },
    };
    const [{ ref }] = await store.add([held]);
    const broker = await CredentialBroker.open({ store, providers: ["ssh"], vm: "vm-a" });
    await using stack = new AsyncDisposableStack();
    stack.defer(() => broker.close());
    const login = broker.sshLogin(ref, "github.com", 22);
    assertEquals(await login.sign(DATA, "ssh-ed25519"), signLogin(credential.secret, DATA, "ssh-ed25519"));
    onAsked = () => store.revoke(ref);
    await assertRejects(() => login.sign(DATA, "ssh-ed25519"), CredentialDenied, "revoked");
    assertEquals(asked, 2);
    await assertRejects(() => login.sign(DATA, "ssh-ed25519"), CredentialDenied, "revoked");
    assertEquals(asked, 2);
  }));

Deno.test("nothing that an agent says is sent unless it is a signature of the key, the data and the algorithm", () =>
  withFolder(async (dir) => {
    const mine = await readSshSecret(await Deno.readTextFile(await sshKey(dir, "mine")));
    const other = await readSshSecret(await Deno.readTextFile(await sshKey(dir, "other")));
    const key = publicKeyOf(mine);
    const signed = (secret: string, data: Uint8Array, name = "ssh-ed25519") =>
      message(14, string(joinBytes([string(name), string(signPlain(secret, data, "ssh-ed25519"))])));
    const cases: [string, Uint8Array | undefined, string][] = [
      ["the signature of another key", signed(other, DATA), "is not of"],
      ["the signature of other data", signed(mine, new Uint8Array(20)), "is not of"],
      ["another algorithm's name", signed(mine, DATA, "ssh-rsa"), "is not of"],
      [
        "bytes behind the signature",
        message(
          14,
          string(joinBytes([sshSignature(signPlain(mine, DATA, "ssh-ed25519"), "ssh-ed25519"), string("x")])),
        ),
        "is not of",
      ],
      ["no signature", message(14, new Uint8Array()), "is not of"],
      ["a refusal", message(5, new Uint8Array()), "does not sign"],
      ["another answer", message(12, string("")), "does not sign"],
      ["an end", undefined, "ended the connection"],
      ["half an answer", signed(mine, DATA).subarray(0, 30), "ended the connection"],
      ["an endless answer", Uint8Array.of(0xff, 0xff, 0xff, 0xff, 14), "cannot be read"],
      ["an empty answer", Uint8Array.of(0, 0, 0, 0), "cannot be read"],
    ];
    for (const [what, answer, expected] of cases) {
      const agent = await lyingAgent(dir, () => answer);
      const error = await assertRejects(
        () => signWithAgent(agent.socket, key, DATA, ED25519),
        SbxError,
      );
      assertStringIncludes(error.message, expected, what);
      assertEquals(error.code, "ssh.agent");
      agent.close();
    }
    const silent = Deno.listen({ transport: "unix", path: join(dir, "silent") });
    const accepted = silent.accept();
    const hung = () => signWithAgent(join(dir, "silent"), key, DATA, { ...ED25519, waitMs: 50 });
    await assertRejects(hung, SbxError, "did not answer in time");
    (await accepted).close();
    silent.close();
    let asked = new Uint8Array();
    const honest = await lyingAgent(dir, (request) => {
      asked = request as Uint8Array<ArrayBuffer>;
      return signed(mine, DATA);
    });
    const signature = await signWithAgent(honest.socket, key, DATA, ED25519);
    assertEquals(signature, signPlain(mine, DATA, "ssh-ed25519"));
    assertEquals(asked[4], 13);
    honest.close();
    assertEquals(checkSignature(key, DATA, "ssh-rsa", sshSignature(signature, "ssh-rsa")), undefined);
    const lists = await lyingAgent(dir, () => message(12, Uint8Array.of(0, 0, 0, 9, 0, 0, 0, 1)));
    await assertRejects(() => agentKeys(lists.socket), SbxError, "cannot be read");
    lists.close();
  }));
