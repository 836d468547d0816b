/**
 * git signs with keys of the host: the real git, the guest's program, the endpoint, the
 * gate, the store, and who verifies.
 */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { CredentialBroker, CredentialStore, type NewCredential } from "../../../lib/credential/mod.ts";
import { LocalServer } from "../../../lib/mcp/endpoint/mod.ts";
import type { Ask } from "../../../lib/policy/ask/schema.ts";
import { findGpgKey, type SigningTerms } from "../../../lib/sign/mod.ts";
import { signingTool } from "../../../lib/session/signing_tool.ts";
import { TestGate } from "../../helper/gate.ts";
import { GuestSide } from "../../helper/mcp_endpoint_guest.ts";
import { EMPTY_CATALOGUE } from "../../helper/mcp_endpoint_catalogue.ts";
import { fromRoot } from "../../helper/repo.ts";
import {
  commitPayload,
  keyTerms,
  makeGpg,
  makeKey,
  must,
  program,
  startAgent,
} from "../../helper/signing.ts";

const ALLOW = `
[profiles.rules.mine]
action = "allow"
match = 'sign.request.own'
`;

/** A host with a key, a VM's broker and gate, and a repository whose git has the settings of that VM. */
async function signingWorld(
  credential: (dir: string) => Promise<Omit<NewCredential, "provider">>,
  { rules = "", providers = ["signing"] } = {},
) {
  const dir = await Deno.makeTempDir();
  const store = new CredentialStore(join(dir, "credentials", "store.json"));
  const [entry] = await store.add([{ provider: "signing", ...await credential(dir) }]);
  const open = (vm: string, granted = providers) => CredentialBroker.open({ store, providers: granted, vm });
  const broker = await open("vm-a");
  const asked: ((ask: Ask) => void)[] = [];
  const gate = new TestGate(rules, {
    tell: (notice) => {
      if (notice.type === "ask" && notice.payload.status === "pending") asked.shift()?.(notice.payload);
    },
  });
  const tool = signingTool({ gate, broker });
  const guest = new GuestSide({
    gate,
    catalogue: EMPTY_CATALOGUE,
    local: new LocalServer({ tools: [tool] }),
  });
  const files = Object.fromEntries(broker.guestFiles().map(({ path, text }) => [path, text]));
  const signers = join(dir, "allowed_signers");
  await Deno.writeTextFile(signers, files["/etc/sbx/allowed_signers"] ?? "");
  const openpgp = join(dir, "signers.asc");
  if (files["/etc/sbx/signers.asc"]) await Deno.writeTextFile(openpgp, files["/etc/sbx/signers.asc"]);
  const script = join(dir, "sbx-sign");
  const deno = [
    Deno.execPath(),
    "run",
    "-A",
    "--no-check",
    "--quiet",
    fromRoot("tests/helper/sign_program.ts"),
  ];
  await Deno.writeTextFile(script, `#!/bin/sh\nexec ${deno.join(" ")} ${guest.path} ${openpgp} "$@"\n`);
  await Deno.chmod(script, 0o755);
  const settings = Object.fromEntries(
    Object.entries(broker.guestEnv()).map(([name, value]) => [
      name,
      value.endsWith("/sbx-sign") ? script : value === "/etc/sbx/allowed_signers" ? signers : value,
    ]),
  );
  const empty = join(dir, "gnupg");
  await Deno.mkdir(empty, { mode: 0o700 });
  const env = {
    ...settings,
    GIT_CONFIG_GLOBAL: "/dev/null",
    GNUPGHOME: empty,
    ...{ GIT_AUTHOR_NAME: "Ann", GIT_AUTHOR_EMAIL: "ann@example.com" },
    ...{ GIT_COMMITTER_NAME: "Ann", GIT_COMMITTER_EMAIL: "ann@example.com" },
  };
  const repo = join(dir, "repo");
  await must(["git", "init", "-q", "-b", "main", repo]);
  const git = (args: string[], more: Record<string, string> = {}) =>
    program(["git", "-C", repo, ...args], { env: { ...env, ...more } });
  return {
    dir,
    store,
    entry,
    broker,
    gate,
    guest,
    tool,
    signers,
    repo,
    git,
    open,
    call: (payload: unknown, signal = new AbortController().signal) =>
      new LocalServer({ tools: [tool] }).callTool("local__git_sign", { payload }, { signal }) as Promise<
        { isError?: boolean; content: { text: string }[]; structuredContent?: { signature: string } }
      >,
    /** settles with the next ask */
    ask: () => new Promise<Ask>((settle) => void asked.push(settle)),
    /** {@linkcode ask} of a call of git, which fails where that ends without one */
    asking: async (args: string[], more?: Record<string, string>) => {
      const shown = new Promise<Ask>((settle) => void asked.push(settle));
      const call = git(args, more);
      const ended = call.then(({ errors }) => {
        throw new Error(`it ended without an ask: ${errors}`);
      });
      return { ask: await Promise.race([shown, ended]), call };
    },
    events: () => gate.entries.filter(({ event }) => !event.mcp),
    async [Symbol.asyncDispose]() {
      gate.close();
      await guest[Symbol.asyncDispose]();
      await broker.close();
      await Deno.remove(dir, { recursive: true });
    },
  };
}

const stored = async (dir: string) => {
  const { terms, secret } = await keyTerms(await makeKey(dir));
  return { secret, signing: terms };
};
const base64 = (bytes: Uint8Array) => bytes.toBase64();

Deno.test("git commit and git tag are signed by a key of the host that a rule allows, and verified", async () => {
  await using world = await signingWorld(stored, { rules: ALLOW });
  const { git, repo, signers } = world;
  const made = await git(["commit", "-q", "--allow-empty", "-m", "Add a feature"]);
  assertEquals(made.errors, "");
  assertEquals((await git(["tag", "-m", "A release", "v1"])).code, 0);
  // In the guest, and with git and ssh-keygen of another machine.
  for (const [verb, name] of [["verify-commit", "HEAD"], ["verify-tag", "v1"]]) {
    const inGuest = await git([verb, name]);
    assertEquals(inGuest.code, 0, inGuest.errors);
    assertStringIncludes(inGuest.errors, 'Good "git" signature for ann@example.com');
    const host = await program(
      ["git", "-c", "gpg.format=ssh", "-c", `gpg.ssh.allowedSignersFile=${signers}`, "-C", repo, verb, name],
    );
    assertStringIncludes(host.errors, 'Good "git" signature for ann@example.com');
  }
  const [commit, use, tag] = world.events();
  const { parents, kind, own, subject, digest } = commit.event.sign!.request;
  assertEquals([parents, kind, own, subject], [[], "commit", true, "Add a feature"]);
  assertEquals(commit.decision?.rule.id, "mine");
  assertEquals(tag.event.sign!.request.tag, "v1");
  assertEquals(use.event.credential!.substitution, {
    provider: "signing",
    credential_ref: world.entry.ref,
    location: "signature",
    outcome: "injected",
  });
  // The digest is of the commit without its signature.
  const raw = (await git(["cat-file", "commit", "HEAD"])).text;
  const unsigned = raw.replace(/^gpgsig .*\n(?: .*\n)*/m, "");
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(unsigned));
  assertEquals(new Uint8Array(hash).toHex(), digest);
});

Deno.test("a person is shown the commit, and the answer is for these bytes once", async () => {
  await using world = await signingWorld(stored);
  const { git, gate } = world;
  const { ask, call: commit } = await world.asking(
    ["commit", "-q", "--allow-empty", "-m", "Fix it\u001b[2J\n\nbody"],
  );
  const { signer, object } = gate.entries.at(-1)!.event.sign!.request;
  assertEquals(
    ask.subject,
    `commit "Fix it�[2J" by "Ann <ann@example.com>", of tree ${
      object.slice(0, 12)
    } on no parent, key ${signer}`,
  );
  assertEquals(ask.rule_id, "ask-sign");
  assertStringIncludes(ask.covers!, "these 1");
  gate.asks.resolve(ask.ask_id, { decision: "allow", scope: "session" });
  const made = await commit;
  assertEquals([made.code, made.errors], [0, ""]);
  assertEquals((await git(["verify-commit", "HEAD"])).code, 0);
  // A later commit is another one, also after an answer for the whole session.
  const next = await world.asking(["commit", "-q", "--allow-empty", "-m", "Another"]);
  gate.asks.resolve(next.ask.ask_id, { decision: "deny", scope: "once" });
  const denied = await next.call;
  assertEquals(denied.code, 128);
  assertStringIncludes(denied.errors, "your user denied it");
  assertStringIncludes(denied.errors, "git commit --no-gpg-sign");
  assertEquals((await git(["log", "--format=%s"])).text, "Fix it\u001b[2J\n");
  assertEquals((await git(["commit", "-q", "--allow-empty", "--no-gpg-sign", "-m", "Plain"])).code, 0);
});

Deno.test("a signature moved to another commit does not verify", async () => {
  await using world = await signingWorld(stored, { rules: ALLOW });
  const { git } = world;
  await git(["commit", "-q", "--allow-empty", "-m", "Harmless"]);
  const raw = (await git(["cat-file", "commit", "HEAD"])).text;
  const forged = join(world.dir, "forged");
  await Deno.writeTextFile(forged, raw.replace("Harmless", "Evil"));
  const id = (await git(["hash-object", "-t", "commit", "-w", forged])).text.trim();
  const verified = await git(["verify-commit", id]);
  assertEquals(verified.code, 1);
  assertStringIncludes(verified.errors, "incorrect signature");
});

Deno.test("a commit in another person's name is named so, and only a rule that allows it does", async () => {
  await using world = await signingWorld(stored, { rules: ALLOW });
  const { gate } = world;
  const { ask, call: commit } = await world.asking(
    ["commit", "-q", "--allow-empty", "-m", "x"],
    { GIT_AUTHOR_EMAIL: "boss@example.com" },
  );
  assertStringIncludes(ask.subject, 'by "Ann <boss@example.com>" and committed by "Ann <ann@example.com>"');
  assertStringIncludes(ask.subject, "(not an address that the key was added for)");
  gate.asks.resolve(ask.ask_id, { decision: "deny", scope: "once" });
  assertEquals((await commit).code, 128);
});

Deno.test("what is no commit, another namespace, and 10 MB are not signed and ask nobody", async () => {
  await using world = await signingWorld(stored);
  const file = join(world.dir, "file");
  const script = (args: string[], input?: string) =>
    program([join(world.dir, "sbx-sign"), ...args], { input });
  for (
    const [text, namespace, problem] of [
      ["pay 100 to Bob", "git", "not a commit or tag"],
      [new TextDecoder().decode(commitPayload()), "file", "signs for git alone"],
      [new TextDecoder().decode(commitPayload({ subject: "x".repeat(10_000_000) })), "git", "over the limit"],
      [new TextDecoder().decode(commitPayload({ subject: "x".repeat(200_000) })), "git", "over the limit"],
    ]
  ) {
    await Deno.writeTextFile(file, text);
    const { code, errors } = await script(["-Y", "sign", "-n", namespace, "-f", "key", file]);
    assertEquals(code, 1);
    assertStringIncludes(errors, problem);
    await assertRejects(() => Deno.stat(`${file}.sig`));
  }
  assertStringIncludes(
    (await script(["--status-fd=2", "-bsau", "X"], "hello\n")).errors,
    "not a commit or tag",
  );
  for (const payload of [undefined, 5, "***", ["x"]]) {
    assertStringIncludes((await world.call(payload)).content[0].text, "must be base64");
  }
  assertEquals(world.events(), []);
});

Deno.test("a VM without the grant, and one of a host without a key, get no signature and no setting", async () => {
  await using world = await signingWorld(stored, { providers: ["github"] });
  assertEquals([world.broker.guestEnv(), world.broker.guestFiles()], [{}, []]);
  assertEquals(await new LocalServer({ tools: [world.tool] }).listTools().then((all) => all.length), 1);
  const { isError, content } = await world.call(base64(commitPayload()));
  assertEquals([isError, content[0].text.split("\n")[0]], [
    true,
    "this VM's profile grants no key for signatures",
  ]);
  await using other = await signingWorld(stored);
  await other.store.revoke(other.entry.ref);
  assertStringIncludes((await other.call(base64(commitPayload()))).content[0].text, "no key for signatures");
});

Deno.test("a key that is revoked while a person is asked signs nothing", async () => {
  await using world = await signingWorld(stored);
  const shown = world.ask();
  const answer = world.call(base64(commitPayload()));
  const { ask_id } = await shown;
  await world.store.revoke(world.entry.ref);
  world.gate.asks.resolve(ask_id, { decision: "allow", scope: "once" });
  assertStringIncludes((await answer).content[0].text, "revoked while a person was asked");
  assertEquals(world.events().at(-1)!.event.credential!.substitution.outcome, "denied");
});

Deno.test("asks of a VM are bounded, and one VM's answer is none for another", async () => {
  await using world = await signingWorld(stored);
  const payloads = Array.from({ length: 6 }, (_, at) => base64(commitPayload({ subject: `commit ${at}` })));
  const gone = new AbortController();
  const asks = [world.ask(), world.ask(), world.ask(), world.ask()];
  const answers = payloads.map((payload) => world.call(payload, gone.signal).catch(() => undefined));
  const pending = await Promise.all(asks);
  for (const answer of answers.slice(4)) {
    assertStringIncludes((await answer)!.content[0].text, "may ask for 4 signatures at once");
  }
  // Another VM of this home: its own gate and asks.
  const asked = Promise.withResolvers<Ask>();
  const gate = new TestGate("", { tell: ({ type, payload }) => type === "ask" && asked.resolve(payload) });
  const broker = await world.open("vm-b");
  const tool = signingTool({ gate, broker });
  world.gate.asks.resolve(pending[0].ask_id, { decision: "allow", scope: "session" });
  assertEquals((await answers[0])!.isError, undefined);
  const second = new LocalServer({ tools: [tool] })
    .callTool("local__git_sign", { payload: payloads[0] }, { signal: gone.signal });
  gate.asks.resolve((await asked.promise).ask_id, { decision: "deny", scope: "once" });
  assertEquals((await second as { isError: boolean }).isError, true);
  gone.abort();
  await Promise.all(answers);
  gate.close();
  await broker.close();
});

Deno.test("an ssh-agent and gpg of the host sign for git", async () => {
  await using gpg = await makeGpg();
  const key = await findGpgKey(gpg.fingerprint, gpg.home);
  const signing: SigningTerms = {
    format: "openpgp",
    from: "gpg",
    public: key.public,
    fingerprint: key.fingerprint,
    emails: key.emails,
    place: gpg.home,
  };
  await using world = await signingWorld(() => Promise.resolve({ secret: crypto.randomUUID(), signing }), {
    rules: ALLOW,
  });
  const made = await world.git(["commit", "-q", "--allow-empty", "-m", "By gpg"]);
  assertEquals([made.code, made.errors], [0, ""]);
  const inGuest = await world.git(["verify-commit", "HEAD"]);
  assertEquals(inGuest.code, 0, inGuest.errors);
  assertStringIncludes(inGuest.errors, 'Good signature from "Ann <ann@example.com>"');
  assertEquals((await world.git(["tag", "-m", "A release", "v1"])).code, 0);
  const host = await program(["git", "-C", world.repo, "verify-tag", "v1"], { env: { GNUPGHOME: gpg.home } });
  assertEquals(host.code, 0, host.errors);

  const keys = await Deno.makeTempDir();
  const path = await makeKey(keys);
  await using agent = await startAgent(keys, [path]);
  const { terms } = await keyTerms(path);
  const ofAgent = { ...terms, from: "agent" as const, place: agent.socket };
  await using second = await signingWorld(
    () => Promise.resolve({ secret: crypto.randomUUID(), signing: ofAgent }),
    { rules: ALLOW },
  );
  assertEquals((await second.git(["commit", "-q", "--allow-empty", "-m", "By an agent"])).errors, "");
  assertEquals((await second.git(["verify-commit", "HEAD"])).code, 0);
  await must(["ssh-add", "-q", "-D"], { env: { SSH_AUTH_SOCK: agent.socket } });
  const refused = await second.git(["commit", "-q", "--allow-empty", "-m", "Empty agent"]);
  assertStringIncludes(refused.errors, "the key of the host did not sign this");
  assertEquals(second.events().at(-1)!.event.credential!.substitution.outcome, "error");
  await Deno.remove(keys, { recursive: true });
});
