/** Network values that a VM boots with, and those that stop its boot. */
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "node:path";
import { SbxError, statusOf } from "../../../lib/base/error/mod.ts";
import { caFiles, openCa } from "../../../lib/network/ca/mod.ts";
import { readNetworkConfig } from "../../../lib/session/network_config/mod.ts";
import { set, withBoot } from "../../helper/boot.ts";

/** Values of the network that are wrong, the code, and what the message says; `DIR` stands for the home. */
const NETWORKS: [string, unknown, string, string][] = [
  ["network.dns_resolvers", ["not-an-ip"], "dns.resolver.invalid", '"not-an-ip" is not the address'],
  [
    "network.upstream_overrides",
    ["x"],
    "network.override.invalid",
    '"x" does not have the form name=ip:port',
  ],
  ["network.extra_ca_file", "/nope", "network.ca_file.not_found", "there is no file /nope"],
  ["network.extra_ca_file", "ca.pem", "network.ca_file.invalid", '"ca.pem" is not an absolute path'],
  ["network.extra_ca_file", "DIR", "network.ca_file.invalid", "DIR is not a file of certificates"],
  ["network.extra_ca_file", "DIR/none.pem", "network.ca_file.invalid", "DIR/none.pem holds no certificate"],
  [
    "network.extra_ca_file",
    "DIR/bad.pem",
    "network.ca_file.invalid",
    "a certificate in DIR/bad.pem is damaged",
  ],
  ["network.model_price_file", "/nope", "model.prices.not_found", "there is no price table at /nope"],
  [
    "network.model_price_file",
    "DIR/none.pem",
    "model.prices.invalid",
    "invalid price table DIR/none.pem",
  ],
];
for (const [id, value, code, message] of NETWORKS) {
  Deno.test(
    `no VM boots with ${id} = ${JSON.stringify(value)}, of the user's or of corp's`,
    withBoot(async ({ home, user, corp, boot }) => {
      const here = <T>(of: T): T => JSON.parse(JSON.stringify(of).replaceAll("DIR", home.dir));
      await Deno.writeTextFile(join(home.dir, "none.pem"), "no certificate\n");
      await Deno.writeTextFile(
        join(home.dir, "bad.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
      );
      for (const write of [user, corp]) {
        await write(set(id, here(value)));
        const error = await assertRejects(() => boot(), SbxError);
        assertEquals([error.code, statusOf(code) < 500], [code, true]);
        assertStringIncludes(error.message, `${id}: ${here(message)}`);
        assertStringIncludes(error.hint!, `sbx settings explain ${id} shows where it is set`);
        await user("");
      }
    }),
  );
}

Deno.test(
  "a network that is right boots, with the authority of a real certificate among it",
  withBoot(async ({ home, user, boot }) => {
    await openCa(home);
    await user(
      set("network.extra_ca_file", caFiles(home).certificate) + set("network.dns_resolvers", ["192.0.2.1"]) +
        set("network.upstream_overrides", ["a.example=127.0.0.1:1"]),
    );
    const { contract } = await boot();
    assertEquals(contract.network.resolvers, ["192.0.2.1"]);
    assertEquals((await readNetworkConfig(contract.network)).caCerts.length, 1);
  }),
);
