/** A failed request names the authority that this machine does not trust. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { fetchSmall } from "../../../../lib/base/download/mod.ts";
import { untrustedIssuer } from "../../../../lib/base/proxy/mod.ts";
import { createAuthority } from "../../../../lib/network/ca/sign.ts";

Deno.test("an untrusted certificate's authority is named, with what mends it", async () => {
  const { key, certificate } = await createAuthority();
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, cert: certificate, key, onListen() {} },
    () => new Response("x"),
  );
  const url = new URL(`https://localhost:${server.addr.port}/manifest.json`);
  const error = await assertRejects(() => fetchSmall(url, 100), SbxError);
  assertEquals(error.code, "assets.download_failed");
  assert(
    /signed by the authority "sbx[^"]*", which this machine does not trust/.test(error.message),
    error.message,
  );
  assert(error.hint?.includes("network.extra_ca_file"), error.hint);
});

Deno.test("other failures have no authority", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const url = new URL(`https://127.0.0.1:${(listener.addr as Deno.NetAddr).port}/`);
  assertEquals(await untrustedIssuer(url, new Error("connection refused")), undefined);
  assertEquals(await untrustedIssuer(new URL("http://127.0.0.1/"), new Error("UnknownIssuer")), undefined);
});
