/** Signatures of keys, agents and gpg, verified by ssh-keygen and gpg themselves. */
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  findGpgKey,
  readSigningFile,
  readSigningKey,
  type SigningTerms,
  signPayload,
} from "../../../lib/sign/mod.ts";
import {
  commitPayload,
  keyTerms,
  KINDS,
  makeGpg,
  makeKey,
  must,
  program,
  startAgent,
} from "../../helper/signing.ts";

const { signal } = new AbortController();

async function inFolder(run: (dir: string) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir();
  try {
    await run(dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** What ssh-keygen says of a signature. */
async function verified(
  dir: string,
  { public: key }: SigningTerms,
  signature: string,
  payload: Uint8Array,
  namespace = "git",
) {
  const [signers, file] = [join(dir, "signers"), join(dir, "signature")];
  await Deno.writeTextFile(signers, `ann@example.com ${key}\n`);
  await Deno.writeTextFile(file, signature);
  return await program(
    ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "ann@example.com", "-n", namespace, "-s", file],
    { input: payload },
  );
}

for (const [name, kind] of Object.entries(KINDS)) {
  Deno.test(`ssh-keygen verifies signatures of a key of ${name}, from the store and from an agent`, () =>
    inFolder(async (dir) => {
      const path = await makeKey(dir, kind);
      const { terms, secret } = await keyTerms(path);
      assertStringIncludes(await must(["ssh-keygen", "-lf", path]), terms.fingerprint);
      assertStringIncludes(await Deno.readTextFile(`${path}.pub`), terms.public);
      const payload = commitPayload();
      const signature = await signPayload(terms, secret, payload, signal);
      assertEquals((await verified(dir, terms, signature, payload)).code, 0);
      // Neither another commit nor another use of the key.
      assertEquals((await verified(dir, terms, signature, commitPayload({ subject: "Other" }))).code, 255);
      assertStringIncludes((await verified(dir, terms, signature, payload, "file")).errors, "namespace");
      await using agent = await startAgent(dir, [path]);
      const ofAgent = { ...terms, from: "agent" as const, place: agent.socket };
      const second = await signPayload(ofAgent, "", payload, signal);
      assertEquals((await verified(dir, terms, second, payload)).code, 0);
    }));
}

Deno.test("keys with a passphrase, damaged ones and files of something else are refused with the next step", () =>
  inFolder(async (dir) => {
    const locked = await Deno.readTextFile(await makeKey(dir, KINDS.ed25519, "secret words"));
    const good = await Deno.readTextFile(await makeKey(dir));
    const weak = join(dir, "weak");
    await must(["ssh-keygen", "-q", "-t", "rsa", "-b", "1024", "-N", "", "-f", weak]);
    // The public half says another key.
    const [, body] = good.split("-----\n");
    const raw = Uint8Array.fromBase64(body.replaceAll(/-.*|\s/g, ""));
    raw[70] ^= 1;
    const swapped =
      `-----BEGIN OPENSSH PRIVATE KEY-----\n${raw.toBase64()}\n-----END OPENSSH PRIVATE KEY-----\n`;
    for (
      const [text, problem] of [
        [await Deno.readTextFile(weak), "fewer than 2048"],
        [good.slice(0, 200), "cannot be read"],
        [swapped, "cannot be read"],
        ["", "no private key"],
      ]
    ) {
      const error = await assertRejects(() => readSigningFile(text), SbxError);
      assertStringIncludes(error.message, problem);
      assertEquals(error.code, "sign.key.invalid");
    }
    assertEquals((await assertRejects(() => readSigningFile(locked), SbxError)).code, "sign.key.locked");
    await assertRejects(() => readSigningFile(locked, "other words"), SbxError, "does not open the key");
    assertEquals((await readSigningFile(locked, "secret words")).comment, "ann@example.com");
    const pem = join(dir, "pem");
    await must(["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", pem]);
    assertStringIncludes(
      await Deno.readTextFile(`${pem}.pub`),
      (await readSigningFile(await Deno.readTextFile(pem))).public.line,
    );
    for (const text of ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIIBumI"]) {
      assertThrows(() => readSigningKey(text), SbxError, "not the line of a public SSH key");
    }
  }));

/** A program at the socket of an agent, which answers each request with these bytes, or never. */
function oddAgent(dir: string, answer?: Uint8Array): { socket: string } & AsyncDisposable {
  const socket = join(dir, `odd-${crypto.randomUUID().slice(0, 8)}`);
  const listener = Deno.listen({ transport: "unix", path: socket });
  const conns: Deno.Conn[] = [];
  const served = (async () => {
    for await (const conn of listener) {
      conns.push(conn);
      await conn.read(new Uint8Array(4096));
      if (answer) await conn.write(answer);
    }
  })();
  return {
    socket,
    async [Symbol.asyncDispose]() {
      listener.close();
      await served;
      for (const conn of conns) conn.close();
    },
  };
}

Deno.test("an agent that lies, hangs, refuses, floods or is gone gives no signature", () =>
  inFolder(async (dir) => {
    const { terms } = await keyTerms(await makeKey(dir));
    const other = await makeKey(dir);
    const payload = commitPayload();
    const at = (place: string) => ({ ...terms, from: "agent" as const, place });
    const failed = (place: string, problem: string, ms?: number) =>
      assertRejects(() => signPayload(at(place), "", payload, signal, ms), SbxError, problem);
    // A whole answer of the right form, over other bytes.
    const lie = Uint8Array.fromHex(
      "00000058" + "0e" + "00000053" + "0000000b" + "7373682d65643235353139" + "00000040" + "00".repeat(64),
    );
    await using lying = oddAgent(dir, lie);
    await failed(lying.socket, "is not of SHA256:");
    await using hanging = oddAgent(dir);
    await failed(hanging.socket, "did not answer in time", 50);
    await using refusing = oddAgent(dir, Uint8Array.of(0, 0, 0, 1, 5));
    await failed(refusing.socket, "does not sign with SHA256:");
    await using flooding = oddAgent(dir, Uint8Array.of(0x7f, 255, 255, 255, 14));
    await failed(flooding.socket, "cannot be read");
    await failed(join(dir, "gone"), "cannot be reached");
    const taken = join(dir, "taken");
    using _listener = Deno.listen({ transport: "unix", path: taken });
    await Deno.chown(taken, 65534, null);
    await failed(taken, "belongs to another user");
    await using real = await startAgent(dir, [other]);
    await failed(real.socket, "does not hold the key");
  }));

Deno.test("gpg of the host signs, and verifies the signature", async () => {
  await using gpg = await makeGpg();
  const { fingerprint, public: key, emails } = await findGpgKey("ann@example.com", gpg.home);
  assertEquals([fingerprint, emails], [gpg.fingerprint, ["ann@example.com"]]);
  const terms: SigningTerms = { format: "openpgp", from: "gpg", public: key, fingerprint, place: gpg.home };
  const payload = commitPayload();
  const signature = await signPayload(terms, "", payload, signal);
  await inFolder(async (dir) => {
    const file = join(dir, "signature");
    await Deno.writeTextFile(file, signature);
    const verify = (input: Uint8Array) =>
      program(["gpg", "--homedir", gpg.home, "--status-fd", "1", "--verify", file, "-"], { input });
    assertStringIncludes((await verify(payload)).text, `VALIDSIG ${fingerprint}`);
    assertStringIncludes((await verify(commitPayload({ subject: "Other" }))).text, "BADSIG");
  });
  const gone = { ...terms, fingerprint: "A".repeat(40) };
  await assertRejects(() => signPayload(gone, "", payload, signal), SbxError, "does not sign with this key");
  for (const id of ["nobody@example.com", "--list-keys", "a b", "$(id)"]) {
    await assertRejects(() => findGpgKey(id, gpg.home), SbxError, "the key cannot sign");
  }
});
