/**
 * Keys of roles and of the host's own AWS configuration (docs/design/contracts/09-credentials.md
 * §9, "Clouds"), asked for by Amazon's library of STS and SSO on loopback, which judge the
 * signatures by another copy of it.
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { obtainSecret, packRoleKeys } from "../../../lib/credential/mod.ts";
import type { AwsTerms } from "../../../lib/credential/cloud/terms.ts";
import { newCredential } from "../../../lib/service/contract/credentials.ts";
import { AWS_KEYS, AWS_SECRET, librarySigner } from "../../helper/aws.ts";
import { Clouds, type TokenRequest } from "../../helper/cloud.ts";
import { world } from "../../helper/credential.ts";

const REGION = "eu-west-1";
const STS = `sts.${REGION}.amazonaws.com`;
const PORTAL = `portal.sso.${REGION}.amazonaws.com`;
const OIDC = `oidc.${REGION}.amazonaws.com`;
const ROLE = "arn:aws:iam::123456789012:role/agent";
const BASE = "arn:aws:iam::123456789012:role/team/base";
const START = "https://contoso.awsapps.com/start";
const LIFE_MS = 3600_000;

/** Keys that a server gives for a name: each another. */
const keysFor = (name: string) => ({
  id: `ASIA${name.toUpperCase().padEnd(16, "Q")}`,
  secret: `${name}/secret+`.padEnd(40, "s"),
  token: `${name}-token/`.repeat(12),
});

type Keys = ReturnType<typeof keysFor>;
const textOf = ({ id, secret, token }: Keys) => `${id}:${secret}:${token}`;

/** AWS with STS, which knows the keys that take roles, and SSO. */
class Aws implements AsyncDisposable {
  readonly taken: { role: string; by: string; external?: string; duration: string }[] = [];
  /** keys that STS knows */
  readonly known = new Map<string, { id: string; secret: string; token?: string }>([[AWS_KEYS.id, AWS_KEYS]]);
  /** access tokens that the portal takes */
  readonly tokens = new Set<string>();
  refreshed = 0;
  failure?: Response;

  private constructor(readonly clouds: Clouds) {}

  static async open(): Promise<Aws> {
    const aws = new Aws(await Clouds.open([STS, PORTAL, OIDC]));
    aws.clouds.answer((request) => aws.failure?.clone() ?? aws.#answer(request));
    return aws;
  }

  async #answer(request: TokenRequest): Promise<Response> {
    if (request.host === OIDC) return this.#refresh(request);
    return request.host === PORTAL ? this.#portal(request) : await this.#sts(request);
  }

  #refresh({ text }: TokenRequest): Response {
    const { grantType, refreshToken } = JSON.parse(text);
    assertEquals([grantType, refreshToken], ["refresh_token", "a-refresh-token-of-sso"]);
    this.refreshed++;
    this.tokens.add("renewed-token-of-sso");
    return Response.json({ accessToken: "renewed-token-of-sso", expiresIn: 28_800, tokenType: "Bearer" });
  }

  #portal({ target, headers }: TokenRequest): Response {
    const query = new URL(target, "https://portal").searchParams;
    if (!this.tokens.has(headers.get("x-amz-sso_bearer_token") ?? "")) {
      return Response.json({ message: "Session token not found" }, {
        status: 401,
        headers: { "x-amzn-errortype": "UnauthorizedException" },
      });
    }
    const { id, secret, token } = keysFor(`sso${query.get("role_name")}`);
    this.known.set(id, { id, secret, token });
    const expiration = Date.now() + LIFE_MS;
    return Response.json({
      roleCredentials: { accessKeyId: id, secretAccessKey: secret, sessionToken: token, expiration },
    });
  }

  async #sts({ method, target, text, form, headers }: TokenRequest): Promise<Response> {
    const claim = headers.get("authorization") ?? "";
    const [, id = "", names = ""] = /Credential=([^/]+)\/.*SignedHeaders=([^,]+),/.exec(claim) ?? [];
    const keys = this.known.get(id);
    if (!keys) return stsError("InvalidClientTokenId");
    const signed = await librarySigner(keys, { service: "sts", region: REGION }).sign({
      method,
      protocol: "https:",
      hostname: STS,
      path: target,
      headers: Object.fromEntries(
        names.split(";").filter((name) => name !== "x-amz-security-token").map((
          name,
        ) => [name, name === "host" ? STS : headers.get(name)!]),
      ),
      body: text,
    }, { signingDate: dateOf(headers.get("x-amz-date")!) });
    if (signed.headers.authorization !== claim) return stsError("SignatureDoesNotMatch");
    const role = form.get("RoleArn")!;
    const external = form.get("ExternalId") ?? undefined;
    this.taken.push({ role, by: id, ...(external && { external }), duration: form.get("DurationSeconds")! });
    const given = keysFor(role.split("/").at(-1)!);
    this.known.set(given.id, given);
    // As Amazon's does, which a client that reads XML alone must not ask for.
    if (headers.get("accept") === "application/json") {
      const { id: AccessKeyId, secret: SecretAccessKey, token: SessionToken } = given;
      const Credentials = {
        AccessKeyId,
        SecretAccessKey,
        SessionToken,
        Expiration: (Date.now() + LIFE_MS) / 1000,
      };
      return Response.json({ AssumeRoleResponse: { AssumeRoleResult: { Credentials } } });
    }
    return new Response(
      `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>${given.id}</AccessKeyId><SecretAccessKey>${given.secret}</SecretAccessKey>
<SessionToken>${given.token}</SessionToken><Expiration>${
        new Date(Date.now() + LIFE_MS).toISOString()
      }</Expiration>
</Credentials></AssumeRoleResult></AssumeRoleResponse>`,
      { headers: { "content-type": "text/xml" } },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.clouds[Symbol.asyncDispose]();
  }
}

function stsError(code: string): Response {
  const text =
    `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${AWS_KEYS.secret}</Message></Error></ErrorResponse>`;
  return new Response(text, { status: 403, headers: { "content-type": "text/xml" } });
}

function dateOf(text: string): Date {
  return new Date(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
}

const CONFIG = `
[default]
region = ${REGION}

[profile fixed]
aws_access_key_id = ${AWS_KEYS.id}
aws_secret_access_key = ${AWS_KEYS.secret}

[profile base]
role_arn = ${BASE}
source_profile = fixed
region = ${REGION}

[profile agent]
role_arn = ${ROLE}
source_profile = base
external_id = from-the-owner
region = ${REGION}

[profile process]
credential_process = printf %s "{\\"Version\\": 1, \\"AccessKeyId\\": \\"${AWS_KEYS.id}\\", \\"SecretAccessKey\\": \\"${AWS_KEYS.secret}\\"}"

[profile shell]
credential_process = printf %s $(id)

[profile endless]
credential_process = yes

[profile sso]
sso_session = contoso
sso_account_id = 123456789012
sso_role_name = dev

[sso-session contoso]
sso_region = ${REGION}
sso_start_url = ${START}

[profile mfa]
role_arn = ${ROLE}
source_profile = fixed
mfa_serial = arn:aws:iam::123456789012:mfa/ann

[profile loop]
role_arn = ${ROLE}
source_profile = loop2

[profile loop2]
role_arn = ${ROLE}
source_profile = loop
`;

/** A person's folder with a configuration of AWS. */
async function withHome(run: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  const before = ["HOME", "AWS_CONFIG_FILE"].map((name) => [name, Deno.env.get(name)] as const);
  Deno.env.set("HOME", home);
  Deno.env.delete("AWS_CONFIG_FILE");
  try {
    await Deno.mkdir(join(home, ".aws/sso/cache"), { recursive: true });
    await Deno.writeTextFile(join(home, ".aws/config"), CONFIG);
    await run(home);
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) Deno.env.delete(name);
      else Deno.env.set(name, value);
    }
    await Deno.remove(home, { recursive: true });
  }
}

const obtain = (terms: Omit<AwsTerms, "kind">, key?: string) =>
  obtainSecret({ cloud: { kind: "aws", ...terms } }, { provider: "aws", ...(key !== undefined && { key }) });

/** Message and hint of the failure; neither has a key. */
async function problemOf(terms: Omit<AwsTerms, "kind">, key?: string): Promise<string> {
  const error = await assertRejects(() => obtain(terms, key), SbxError);
  assertEquals(error.code, "credential.program");
  assert(!Deno.inspect(error, { depth: 10 }).includes(AWS_KEYS.secret), "an error has a key");
  return `${error.message} (${error.hint})`;
}

Deno.test("a stored key takes a role, whose keys are for an hour", async () => {
  await using aws = await Aws.open();
  const terms = { role_arn: ROLE, external_id: "from-the-owner", region: REGION };
  const { secret, expires_at } = await obtain(terms, packRoleKeys(AWS_SECRET, ROLE));
  assertEquals(secret, textOf(keysFor("agent")));
  assert(Math.abs(expires_at - Date.now() - LIFE_MS) < 60_000);
  assertEquals(aws.taken, [{ role: ROLE, by: AWS_KEYS.id, external: "from-the-owner", duration: "3600" }]);
  const wrong = `${AWS_KEYS.id}:${"x".repeat(40)}`;
  assertEquals(
    await problemOf(terms, packRoleKeys(wrong, ROLE)),
    `the role ${ROLE} was not given: SignatureDoesNotMatch (check its trust policy, and the key that takes it)`,
  );
  assert((await problemOf(terms, "{}")).startsWith("the store has no key that takes the role"));
  // A text of the server that is no known code is not repeated, and an answer
  // that is none of STS gives no keys.
  aws.failure = stsError(AWS_KEYS.secret);
  assert(
    (await problemOf(terms, packRoleKeys(AWS_SECRET, ROLE))).startsWith(`the role ${ROLE} was not given (`),
  );
  aws.failure = new Response("a".repeat(300_000));
  assert(/was not given: an answer of sts\./.test(await problemOf(terms, packRoleKeys(AWS_SECRET, ROLE))));
});

Deno.test("a profile of the host gives its keys: fixed ones, a program's, and a role's through another role", () =>
  withHome(async () => {
    await using aws = await Aws.open();
    assertEquals((await obtain({ profile: "fixed" })).secret, AWS_SECRET);
    assertEquals((await obtain({ profile: "process" })).secret, AWS_SECRET);
    assertEquals((await obtain({ profile: "agent" })).secret, textOf(keysFor("agent")));
    assertEquals(aws.taken, [
      { role: BASE, by: AWS_KEYS.id, duration: "3600" },
      { role: ROLE, by: keysFor("base").id, external: "from-the-owner", duration: "3600" },
    ]);
    // A role beside the profile is taken with its keys.
    aws.taken.length = 0;
    assertEquals(
      (await obtain({ profile: "process", role_arn: BASE, region: REGION })).secret,
      textOf(keysFor("base")),
    );
    assertEquals(aws.taken.map(({ by }) => by), [AWS_KEYS.id]);
    const problems: [string, RegExp][] = [
      ["none", /no profile "none" \(aws configure list-profiles/],
      ["default", /the profile "default" has no keys/],
      ["mfa", /needs a code of a second factor/],
      ["loop", /has no keys|takes its own keys, and has none/],
      // No shell reads the command.
      ["shell", /credential_process of the profile "shell" gave no usable keys/],
      ["endless", /wrote more than 65536 bytes/],
      ["__proto__", /no profile/],
    ];
    for (const [profile, expected] of problems) {
      const problem = await problemOf({ profile });
      assert(expected.test(problem), problem);
    }
  }));

Deno.test("a profile of SSO gives keys, renews its login as the person's own client does, and says when it has ended", () =>
  withHome(async (home) => {
    await using aws = await Aws.open();
    const cache = join(home, ".aws/sso/cache", `${createHash("sha1").update("contoso").digest("hex")}.json`);
    const login = (accessToken: string, expiresAt: Date, more = {}) =>
      Deno.writeTextFile(
        cache,
        JSON.stringify({
          startUrl: START,
          region: REGION,
          accessToken,
          expiresAt: expiresAt.toISOString(),
          ...more,
        }),
      );
    const hint = "(aws sso login --profile sso)";
    assertEquals(await problemOf({ profile: "sso" }), `SSO gave no keys to the profile "sso" ${hint}`);
    await login("a-token-of-sso", new Date(Date.now() + LIFE_MS));
    const refused = 'SSO gave no keys to the profile "sso": UnauthorizedException';
    assertEquals(await problemOf({ profile: "sso" }), `${refused} ${hint}`);
    aws.tokens.add("a-token-of-sso");
    assertEquals((await obtain({ profile: "sso" })).secret, textOf(keysFor("ssodev")));
    // A role with the keys of SSO.
    const role = await obtain({ profile: "sso", role_arn: ROLE, region: REGION });
    assertEquals([role.secret, aws.taken.map(({ by }) => by)], [textOf(keysFor("agent")), [
      keysFor("ssodev").id,
    ]]);
    await login("an-old-token-of-sso", new Date(Date.now() - 1000), {
      refreshToken: "a-refresh-token-of-sso",
      clientId: "a-client",
      clientSecret: "a-secret-of-the-client",
      registrationExpiresAt: new Date(Date.now() + LIFE_MS).toISOString(),
    });
    assertEquals((await obtain({ profile: "sso" })).secret, textOf(keysFor("ssodev")));
    assertEquals(aws.refreshed, 1);
    assert(
      (await Deno.readTextFile(cache)).includes("renewed-token-of-sso"),
      "the person's own login is renewed too",
    );
  }));

Deno.test("a configuration that others can change names no program", () =>
  withHome(async (home) => {
    const mark = join(home, "ran");
    const [folder, config] = [join(home, ".aws"), join(home, ".aws/config")];
    await Deno.writeTextFile(config, `[profile evil]\ncredential_process = touch ${mark}\n`);
    const elsewhere = join(home, "shared");
    await Deno.mkdir(elsewhere);
    const open: [string, number][] = [[config, 0o666], [config, 0o660], [folder, 0o777]];
    for (const [path, mode] of open) {
      const { mode: before } = await Deno.stat(path);
      await Deno.chmod(path, mode);
      const message = await problemOf({ profile: "evil" });
      assert(message.startsWith(`${await Deno.realPath(path)} can be changed by other users`), message);
      await Deno.chmod(path, before! & 0o777);
    }
    // Behind a link, the folder that it leads to counts.
    await Deno.rename(config, join(elsewhere, "config"));
    await Deno.symlink(join(elsewhere, "config"), config);
    for (const each of [elsewhere, folder]) {
      await Deno.chmod(each, 0o777);
      const message = await problemOf({ profile: "evil" });
      assert(message.startsWith(`${await Deno.realPath(each)} can be changed by other users`), message);
      await Deno.chmod(each, 0o755);
    }
    // As Amazon's library reads the variable: an empty one names no other file.
    await Deno.chmod(elsewhere, 0o777);
    for (const named of ["", "~/shared/config"]) {
      Deno.env.set("AWS_CONFIG_FILE", named);
      assert(/shared can be changed by other users/.test(await problemOf({ profile: "evil" })), named);
    }
    // A place that cannot be checked is not taken for an absent file.
    const circle = join(home, "circle");
    await Deno.symlink(circle, circle);
    Deno.env.set("AWS_CONFIG_FILE", circle);
    assert((await problemOf({ profile: "evil" })).startsWith(`finding ${circle} failed`));
    Deno.env.set("AWS_CONFIG_FILE", "~/shared/config");
    await assertRejects(() => Deno.stat(mark), Deno.errors.NotFound);
    await Deno.chmod(elsewhere, 0o755);
    await problemOf({ profile: "evil" });
    await Deno.stat(mark);
  }));

Deno.test(
  "a VM signs with a placeholder of an identity, and the host with the keys of the role",
  world([], async ({ store, open }) => {
    const secret = packRoleKeys(AWS_SECRET, ROLE);
    const cloud = { kind: "aws" as const, role_arn: ROLE, region: REGION };
    const [{ ref }, plain] = await store.add([
      newCredential({ provider: "aws", secret, origin: { cloud } }),
      newCredential({ provider: "aws", secret: AWS_SECRET }),
    ]);
    assert(ref !== plain.ref, "the key alone is another credential");
    await store.revoke(plain.ref);
    const broker = await open(["aws"], "vm-a");
    const { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: placeholder } = broker.guestEnv();
    assert(id.startsWith("AKIA") && id !== AWS_KEYS.id && placeholder !== AWS_KEYS.secret);
    for (
      const [given, is] of [
        [{ provider: "github", secret, origin: { cloud } }, false],
        [{ provider: "aws", origin: { cloud } }, false],
        [{ provider: "aws", secret, origin: { cloud: { kind: "aws", profile: "work" } } }, false],
        [{ provider: "aws", origin: { cloud: { kind: "aws", profile: "work" } } }, true],
      ] as const
    ) {
      let isTaken = true;
      try {
        newCredential(given as Parameters<typeof newCredential>[0]);
      } catch (error) {
        isTaken = (error as SbxError).code !== "credential.invalid";
      }
      assertEquals(isTaken, is);
    }
  }),
);
