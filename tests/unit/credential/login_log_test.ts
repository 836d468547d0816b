/** The log of a login that is not renewed: one line for each change of its state. */
import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { redactLog } from "../../../lib/base/log/mod.ts";
import { CredentialBroker, CredentialStore, Subscriptions } from "../../../lib/credential/mod.ts";
import { testProvider } from "../../helper/identity_provider.ts";

Deno.test("a renewal that fails with each request is one line of the log", async () => {
  await using provider = await testProvider("claude");
  const { state, definitions, folder } = provider;
  const store = new CredentialStore(join(folder, "credentials/store.json"));
  const logins = new Subscriptions(store, definitions);
  const { access } = await logins.save({ login: "claude" }, {
    access: "sk-ant-oat01-" + "access".repeat(8),
    refresh: "sk-ant-ort01-" + "refresh".repeat(8),
    // It still holds, and is renewed ahead.
    expires_at: Date.now() + 60_000,
    facts: {},
  });
  const lines: string[] = [];
  redactLog((line) => {
    if (line.includes("was not renewed")) lines.push(line.replace(/^\S+ /, ""));
    return line;
  });
  const broker = await CredentialBroker.open({ store, logins, providers: ["anthropic"], vm: "vm-a" });
  try {
    state.before = () => Promise.resolve(new Response("<html>", { status: 503 }));
    const request = () =>
      broker.attend({
        scheme: "https",
        host: "api.anthropic.com",
        port: 443,
        method: "POST",
        path: "/v1/messages",
        headers: [["authorization", `Bearer ${access.ref}`]],
      });
    for (let count = 0; count < 5; count++) assertEquals(await request(), undefined);
    assertEquals(lines, [
      "warn the login claude was not renewed: the renewal of the login failed: the answer is not OAuth",
    ]);
  } finally {
    redactLog((line) => line);
    await broker.close();
  }
});
