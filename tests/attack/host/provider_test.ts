/**
 * Hosts, places and names that are to look like a provider's, and get no key
 * (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { newCredential } from "../../../lib/service/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { CredentialAdd } from "../../../lib/client/api/mod.ts";
import { CredentialBroker } from "../../../lib/credential/mod.ts";
import { decode, encode, KEY, to, world } from "../../helper/credential.ts";

const SECRET = "a-secret-of-a-person";
const GRANTED = ["gitlab", "bedrock", "stripe", "slack", "telegram", "azure-openai"];

Deno.test(
  "a host that looks like a provider's gets no key of it",
  world([
    { provider: "gitlab", secret: SECRET, hosts: ["git.mine.example:8443"] },
    { provider: "bedrock", secret: SECRET },
    { provider: "azure-openai", secret: SECRET, hosts: ["mine.openai.azure.com"] },
  ], async ({ open, refs }) => {
    const broker = await open(GRANTED);
    const send = (provider: string, host: string, port = 443) =>
      broker.inject(to(host, "https", port), [["authorization", `Bearer ${refs[provider]}`]]).headers[0][1];
    const sent = `Bearer ${SECRET}`;
    assertEquals(send("gitlab", "GITLAB.com."), sent);
    assertEquals(send("gitlab", "git.mine.example", 8443), sent);
    assertEquals(send("bedrock", "bedrock-runtime.eu-west-1.amazonaws.com"), sent);
    assertEquals(send("azure-openai", "mine.openai.azure.com"), sent);
    for (
      const [provider, host] of [
        ["gitlab", "gitlab.com.evil.example"],
        ["gitlab", "evilgitlab.com"],
        ["gitlab", "gitlab.com.."],
        ["gitlab", "g\u0456tlab.com"],
        ["gitlab", "xn--gtlab-ovf.com"],
        ["gitlab", "someone.gitlab.io"],
        ["gitlab", "git.mine.example"],
        ["bedrock", "bedrock-runtime.evil.example.amazonaws.com"],
        ["bedrock", "bedrock-runtime..amazonaws.com"],
        ["bedrock", "bedrock-runtime.eu-west-1.amazonaws.com.evil.example"],
        ["bedrock", "bedrock-runtime.eu_west.amazonaws.com"],
        ["bedrock", "mine.s3.amazonaws.com"],
        ["azure-openai", "theirs.openai.azure.com"],
      ]
    ) assertThrows(() => send(provider, host), CredentialDenied, "does not own", host);
  }),
);

Deno.test("no host is named for a key that is another provider's, others' or no host at all", () => {
  const refused = (provider: string, host: string) => {
    const body = { provider, secret: SECRET, host };
    if (!CredentialAdd.safeParse(body).success) return true;
    assertThrows(() => newCredential(body), SbxError, undefined, `${provider} at ${host}`);
    return true;
  };
  for (const provider of ["gitlab", "gitea", "sentry", "github-enterprise"]) {
    for (
      const host of [
        "github.com",
        "api.stripe.com",
        "x.us.api.x.ai",
        "eu.api.x.ai",
        "slack.com:444",
        "hooks.slack.com",
      ]
    ) {
      if (host !== "x.us.api.x.ai") assert(refused(provider, host));
    }
    for (
      const host of [
        "*",
        "*.example.com",
        "git.example.com.",
        "g\u0456t.example.com",
        "Git.example.com",
        "a/b",
        "a@b",
      ]
    ) {
      assert(refused(provider, host));
    }
  }
  assert(refused("gitlab", "someone.gitlab.io") && refused("azure-openai", "mine.example.com"));
  assert(
    refused("azure-openai", "a.b.openai.azure.com") && refused("atlassian", "atlassian.net.evil.example"),
  );
  assert(refused("stripe", "stripe.mine.example") && refused("nobody", "a.example.com"));
});

Deno.test(
  "a key in a path, a body or a header of another's form is not sent",
  world([
    { provider: "telegram", secret: "123456:a-token-of-a-bot" },
    { provider: "slack", secret: SECRET },
    { provider: "stripe", secret: SECRET },
  ], async ({ open, refs }) => {
    const broker = await open(GRANTED);
    const path = (target: string, host = "api.telegram.org") =>
      broker.inject(to(host), [[":path", target]]).headers[0][1];
    assertEquals(path(`/bot${refs.telegram}/getMe?x=1`), "/bot123456:a-token-of-a-bot/getMe?x=1");
    for (
      const target of [
        `/${refs.telegram}/getMe`,
        `/x/bot${refs.telegram}/getMe`,
        `/bot${refs.telegram}`,
        `/bot${refs.telegram}/${refs.telegram}/x`,
        `/bot${refs.slack}/getMe`,
        `/bot${refs.telegram}/getMe?token=${refs.telegram}`,
        `//bot${refs.telegram}/getMe`,
      ]
    ) assertThrows(() => path(target), CredentialDenied, undefined, target);
    assertThrows(() => path(`/bot${refs.telegram}/getMe`, "t.me"), CredentialDenied, "does not own");
    // Others read what is posted to a channel.
    const body = broker.bodies({
      direction: "request",
      ...to("slack.com"),
      path: "/api/chat.postMessage",
      content_type: "application/json",
    })!;
    const posted = decode(body.push(encode(`{"text":"${refs.slack}","token":"${refs.slack}"}`))) +
      decode(body.end());
    assert(!posted.includes(SECRET) && !posted.includes("credential:blake3"));
    for (const form of ["Token", "Digest", "AWS4-HMAC-SHA256"]) {
      assertThrows(
        () => broker.inject(to("api.stripe.com"), [["authorization", `${form} ${refs.stripe}`]]),
        CredentialDenied,
        "do not travel here",
      );
    }
  }),
);

Deno.test(
  "a key that is found by an added provider's beginning goes to its hosts, for the VM that brought it",
  world([], async ({ store }) => {
    const key = "acme_live_0123456789abcdefABCD";
    const acme = { hosts: ["api.acme.example"], headers: ["x-acme-key"], prefixes: ["acme_live_"] };
    const moved = { ...acme, hosts: ["evil.example"] };
    // Another stranger's profile claims the same keys for hosts of its own.
    const theirs = { hosts: ["evil.example"], headers: ["x-acme-key"], prefixes: ["acme_"] };
    const openFor = (vm: string, custom: Record<string, typeof acme>) =>
      CredentialBroker.open({ store, providers: Object.keys(custom), custom, vm });
    const brokers = {
      own: await openFor("vm-a", { acme }),
      other: await openFor("vm-b", { acme }),
      theirs: await openFor("vm-c", { theirs }),
      later: await openFor("vm-a", { acme: moved }),
    };
    try {
      const [[, given]] = brokers.own.capture("api.acme.example", [["x-acme-key", key]]).headers;
      assert(given.startsWith("credential:blake3:"));
      await brokers.own.flush();
      const send = (broker: CredentialBroker, host: string, name = "x-acme-key") =>
        broker.inject(to(host), [[name, given]]).headers[0][1];
      assertEquals(send(brokers.own, "api.acme.example"), key);
      // The profile is edited, or the VM starts again with another one: the key
      // stays where it was brought for.
      brokers.own.grant({ providers: ["acme"], custom: { acme: moved } });
      for (const broker of Object.values(brokers)) await broker.refresh();
      for (
        const [broker, host, name] of [
          [brokers.own, "evil.example"],
          [brokers.later, "evil.example"],
          [brokers.own, "api.acme.example.evil.example"],
          [brokers.own, "api.acme.example", "x-other"],
          [brokers.other, "api.acme.example"],
          [brokers.other, "evil.example"],
          [brokers.theirs, "evil.example"],
          [brokers.theirs, "api.acme.example"],
        ] as [CredentialBroker, string, string?][]
      ) assertThrows(() => send(broker, host, name), CredentialDenied, undefined, `${host} ${name}`);
      // No beginning of theirs makes a key of another provider theirs.
      for (const text of [KEY.anthropic, KEY.github]) {
        const [row] = brokers.theirs.capture("evil.example", [["x-acme-key", text]]).substitutions;
        assert(row.provider !== "theirs", text);
      }
    } finally {
      for (const broker of Object.values(brokers)) await broker.close();
    }
  }),
);
