/**
 * AWS from a VM: a client in the guest signs with its placeholder, and a server of S3
 * opens to the host's key alone.
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { openCa } from "../../lib/network/ca/mod.ts";
import { AWS_KEYS, AWS_SECRET, S3Server } from "../helper/aws.ts";
import { Sbx } from "../helper/sbx.ts";

const HOST = "s3.us-east-1.amazonaws.com";
const RULES = `
[profiles.rules.keep]
action = "block"
match = 'http.request.aws.action == "s3:DeleteObject"'
`;

Deno.test("a VM uses S3 with a key that it does not have", async () => {
  const folder = await Deno.makeTempDir();
  const ca = await openCa({ dir: folder });
  const caFile = join(folder, "roots.pem");
  await Deno.writeTextFile(caFile, ca.certificate);
  const server = await S3Server.open(await ca.leaf(HOST), ["bucket"]);
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    const edited = await sbx.api("PATCH", "/settings/edit", {
      "network.upstream_overrides": [`${HOST}=127.0.0.1:${server.port}`],
      "network.extra_ca_file": caFile,
    });
    assertEquals(edited.status, 200, JSON.stringify(edited.body));
    await sbx.api("POST", "/credentials/add", { provider: "aws", secret: AWS_SECRET });
    await sbx.ok("profile", "copy", "code", "aws");
    const profile = join(sbx.home, "profiles/aws/profile.toml");
    const text = await Deno.readTextFile(profile);
    const granted = text.replace(/^providers = \[/m, 'providers = ["aws", ');
    assert(granted !== text);
    await Deno.writeTextFile(profile, granted + RULES);
    await sbx.ok("create", "dev", "--profile", "aws");
    const sh = (line: string) => sbx.cli("exec", "dev", "--timeout", "60", "-c", line);
    const env = (await sh("env")).stdout;
    assert(/^AWS_ACCESS_KEY_ID=AKIA[A-Z2-7]{16}$/m.test(env), env);
    assert(!env.includes(AWS_KEYS.secret) && !env.includes(AWS_KEYS.id));
    const curl = (args: string) =>
      sh(
        `curl -sS -w ' %{http_code}' --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" ` +
          `-H "x-amz-content-sha256: UNSIGNED-PAYLOAD" ${args}`,
      );
    const put = await curl(`-T /etc/hostname https://${HOST}/bucket/name`);
    assertStringIncludes(put.stdout, "200", put.stderr + await sbx.ok("net", "dev"));
    const removed = await curl(`-X DELETE https://${HOST}/bucket/name`);
    assertStringIncludes(removed.stdout, '"id":"keep"', removed.stderr);
    const got = await curl(`https://${HOST}/bucket/name`);
    assertEquals(got.stdout, `${(await sh("cat /etc/hostname")).stdout} 200`, got.stderr);
    const events = JSON.parse(await sbx.ok("events", "dev", "--family", "http", "--json")).events;
    const actions = events.map((event: { http: { request: { aws?: { action: string } } } }) =>
      event.http.request.aws?.action
    );
    assertEquals(actions, ["s3:PutObject", "s3:DeleteObject", "s3:GetObject"]);
  } finally {
    await sbx.dispose();
    await server[Symbol.asyncDispose]();
    await Deno.remove(folder, { recursive: true });
  }
});
