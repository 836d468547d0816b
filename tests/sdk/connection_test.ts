/** Both SDKs on their way to an sbx: addresses, tokens, versions, and errors of the API. Needs no VM. */
import { assertEquals, assertRejects } from "@std/assert";
import { Sbx } from "../helper/sbx.ts";
import { Driver, type Language, LANGUAGES, SdkError } from "./driver.ts";

Deno.test("the SDKs: a wrong token, another version, no sbx, an address, bad requests", async (t) => {
  const sbx = await Sbx.make({ spare: false });
  try {
    await sbx.ok("start");
    for (const language of LANGUAGES) await t.step(language, () => refused(sbx, language));
  } finally {
    await sbx.dispose();
  }
});

async function refused(sbx: Sbx, language: Language): Promise<void> {
  await using sdk = new Driver(language, sbx.env);
  const fails = async (way: Record<string, unknown>) => {
    const { reply } = await assertRejects(async () => {
      const { client } = await sdk.call("connect", way);
      await sdk.call("raw", { client, method: "POST", path: "/vms/shared/pause", headers: way.headers });
    }, SdkError);
    return reply.code;
  };
  assertEquals(await fails({ host: sbx.base, token: "x".repeat(64) }), "auth.bad_token");
  assertEquals(await fails({ host: sbx.base }), "host.credential");
  assertEquals(await fails({ host: "http://build.example:80", token: "t" }), "host.invalid");
  assertEquals(await fails({ host: "ftp://build.example" }), "host.invalid");
  assertEquals(await fails({ host: "ssh://-oProxyCommand=x" }), "host.invalid");
  const { client } = await sdk.call("connect", { home: sbx.home });
  const headers = { "sbx-api-version": "2" };
  const { reply } = await assertRejects(
    () => sdk.call("raw", { client, method: "GET", path: "/vms/list", headers }),
    SdkError,
  );
  assertEquals(reply.code, "api.version");
  const bad = await assertRejects(() => sdk.call("create", { client, name: "bad name" }), SdkError);
  assertEquals(bad.reply.code, "request.invalid");
  for (
    const [options, code] of [
      [{ image: "no-such-image:1" }, "image.missing"],
      [{ profile: "no-such" }, "profile.not_found"],
      [{ dockerfile: "/no/such/folder" }, "request.invalid"],
      [{ repo: "/no/such/folder" }, "project.invalid"],
      [{ budget: { usd: -1 } }, "request.invalid"],
      [{ limits: { processes: 0 } }, "request.invalid"],
    ] as const
  ) {
    const refused = await assertRejects(() => sdk.call("create", { client, ...options }), SdkError);
    assertEquals(refused.reply.code, code, JSON.stringify(options));
  }
  assertEquals(await sdk.call("list", { client }), [], "nothing of them stays");
  const late = await assertRejects(() => sdk.call("create", { client, queue_secs: -1 }), SdkError);
  assertEquals([late.reply.code, late.reply.message.includes("queue_secs")], ["request.invalid", true]);
  assertEquals(await fails({ home: "/no/such/home" }), "gateway.unreachable");
  const none = await assertRejects(() => sdk.call("get", { client, name: "nope" }), SdkError);
  assertEquals(none.reply.code, "vm.not_found");
}
