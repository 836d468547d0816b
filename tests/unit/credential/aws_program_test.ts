/**
 * AWS keys that a program of the host gives, with an end (docs/design/contracts/09-credentials.md §9,
 * "Secrets of programs"): a VM keeps its placeholder while the keys behind it change.
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { obtainSecret, REASON } from "../../../lib/credential/mod.ts";
import type { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { AWS_KEYS, AWS_SECRET, librarySigner } from "../../helper/aws.ts";
import { world } from "../../helper/credential.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const TOKEN = `FwoGZXIvYXdzE${"t0ken/".repeat(20)}==`;
/** As AWS's own client prints them. */
const printed = (fields: Record<string, unknown>) =>
  JSON.stringify(
    { Version: 1, AccessKeyId: AWS_KEYS.id, SecretAccessKey: AWS_KEYS.secret, ...fields },
    null,
    2,
  );
const prints = (text: string) => obtainSecret({ program: ["printf", "%s", text] }, { provider: "aws" });

Deno.test("a program gives keys as credential_process does, with their token and end", async () => {
  const Expiration = new Date(Date.now() + 3600_000).toISOString();
  const { secret, expires_at } = await prints(printed({ SessionToken: TOKEN, Expiration }));
  assertEquals([secret, expires_at], [`${AWS_SECRET}:${TOKEN}`, Date.parse(Expiration)]);
  assertEquals((await prints(printed({ SessionToken: null }))).secret, AWS_SECRET);
  assertEquals((await prints(AWS_SECRET)).secret, AWS_SECRET);
});

Deno.test("other output of a program is no key of AWS, keys that ended are refused, and nothing of them is repeated", async () => {
  for (
    const text of [
      "sk-not-a-key-of-aws-0000",
      printed({ SecretAccessKey: undefined }),
      printed({ AccessKeyId: "a:b" }),
      printed({ SessionToken: 1 }),
      printed({ SessionToken: "has a space in it" }),
      printed({ Expiration: "2020-01-01T00:00:00Z" }),
      printed({ Expiration: "soon" }),
    ]
  ) {
    const error = await assertRejects(() => prints(text), SbxError);
    assertEquals(error.code, "credential.program", text);
    assert(!`${error.message} ${error.hint}`.includes(AWS_KEYS.secret), text);
  }
  // The JSON is of AWS alone: another service never gets the keys.
  await assertRejects(
    () => obtainSecret({ program: ["printf", "%s", printed({})] }, { provider: "github" }),
    SbxError,
  );
});

Deno.test(
  "a VM keeps its placeholder while the keys behind it change, and is refused after their end",
  world([], async ({ store, open }) => {
    const [{ ref }] = await store.add([newCredential({ provider: "aws", origin: { program: ["true"] } })]);
    const [broker, other] = [await open(["aws"], "vm-a"), await open(["aws"], "vm-b")];
    const env = broker.guestEnv();
    assert(/^AKIA/.test(env.AWS_ACCESS_KEY_ID), JSON.stringify(Object.keys(env)));
    assert(other.guestEnv().AWS_ACCESS_KEY_ID !== env.AWS_ACCESS_KEY_ID);
    const keys = { id: env.AWS_ACCESS_KEY_ID, secret: env.AWS_SECRET_ACCESS_KEY };
    const reasonOf = (by: CredentialBroker) =>
      sign(by, keys).then(
        () => undefined,
        (error) => (error as CredentialDenied).substitutions[0].reason,
      );
    assertEquals(await reasonOf(broker), REASON.notProvided);
    const expires_at = Date.now() + 60_000;
    for (
      const secret of [`${AWS_SECRET}:${TOKEN}`, `AKIDEXAMPLESECONDKEY:${"s".repeat(40)}:${"n".repeat(40)}`]
    ) {
      assertEquals(await broker.provide({ [ref]: { secret, expires_at } }), []);
      const headers = await sign(broker, keys);
      const [id, , token] = secret.split(":");
      assert(headers.get("authorization")!.includes(`Credential=${id}/`));
      assertEquals(headers.get("x-amz-security-token"), token);
      assertEquals(broker.guestEnv(), env);
    }
    await other.provide({ [ref]: { secret: AWS_SECRET, expires_at } });
    assertEquals(await reasonOf(other), REASON.notGranted);
    await broker.provide({ [ref]: { secret: AWS_SECRET, expires_at: Date.now() - 1 } });
    assertEquals(await reasonOf(broker), REASON.notProvided);
    assertThrows(() => newCredential({ provider: "aws", secret: "x".repeat(40) }), SbxError);
  }),
);

/** Signs a request with a placeholder, and through the broker again. */
async function sign(broker: CredentialBroker, keys: { id: string; secret: string }) {
  const request = {
    ...{ method: "GET", protocol: "https:", hostname: HOST, path: "/bucket/key", query: {} },
    headers: { host: HOST },
  };
  const { headers } = await librarySigner(keys, { service: "s3" }).sign(request as never) as unknown as {
    headers: Record<string, string>;
  };
  const fields = Object.entries(headers).filter(([name]) => name !== "host");
  const signed = {
    ...{ scheme: "https", host: HOST, port: 443, method: "GET", target: "/bucket/key" },
    headers: fields.map(([name, value]): [string, string] => [name, value]),
  };
  const signature = broker.signature(signed)!;
  signature.check(new Uint8Array(), true);
  return new Map(signature.sign(signed, new Uint8Array()).headers);
}
