/**
 * Ways of a guest to speak to a provider as an account that nobody added: none reaches
 * it where accounts are `stored`.
 */
import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { CredentialBroker } from "../../../lib/credential/mod.ts";
import { CredentialDenied, type Destination } from "../../../lib/network/interface/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { added, KEY, to, world } from "../../helper/credential.ts";
import { TestGate } from "../../helper/gate.ts";

/** A key of the attacker, of no known shape, and one that looks like the provider's. */
const STRANGE = "attackers-own-key-0123456789";
const SHAPED = "sk-ant-api03-" + "Xy8".repeat(30);
const ANTHROPIC = to("api.anthropic.com");
const REASON = "the profile allows accounts of the credential store only";

const basic = (text: string) => `Basic ${btoa(text)}`;

/** Sends a head as a request of the guest. */
function send(broker: CredentialBroker, place: Destination, headers: Header[]) {
  return broker.inject(place, broker.capture(place.host, headers).headers);
}

const HEADS: [name: string, place: Destination, headers: Header[]][] = [
  ["a bearer token", ANTHROPIC, [["authorization", `Bearer ${STRANGE}`]]],
  ["a key of the provider's shape", ANTHROPIC, [["x-api-key", SHAPED]]],
  ["a key of no shape", ANTHROPIC, [["x-api-key", STRANGE]]],
  ["a short key", ANTHROPIC, [["x-api-key", "short"]]],
  ["another scheme", to("www.googleapis.com"), [["authorization", `OAuth ${STRANGE}`]]],
  ["a key without a scheme", to("api.openai.com"), [["authorization", STRANGE]]],
  ["a header of another provider", to("api.openai.com"), [["x-api-key", STRANGE]]],
  ["a header that no provider documents", to("api.openai.com"), [["api-key", STRANGE]]],
  ["a token header", to("api.github.com"), [["private-token", STRANGE]]],
  ["basic", to("github.com"), [["authorization", basic(`me:${STRANGE}`)]]],
  ["basic, in the user", to("github.com"), [["authorization", basic(`${STRANGE}:x-oauth-basic`)]]],
  ["proxy authorization", to("github.com"), [["proxy-authorization", basic(`me:${STRANGE}`)]]],
  ["a query", to("generativelanguage.googleapis.com"), [[":path", `/v1/models?alt=sse&key=${STRANGE}`]]],
  ["a disguised query", to("generativelanguage.googleapis.com"), [[":path", `/v1/models?%6Bey=${STRANGE}`]]],
  ["a query behind a semicolon", to("www.googleapis.com"), [[":path", `/x?a=b;access_token=${STRANGE}`]]],
  ["a token in a query", to("raw.githubusercontent.com"), [[":path", `/o/r/main/f?token=${STRANGE}`]]],
  ["a code in a query", to("oauth2.googleapis.com"), [[":path", `/token?code=${STRANGE}`]]],
  ["a session cookie", to("chatgpt.com"), [[
    "cookie",
    `__cf_bm=1; __Secure-next-auth.session-token=${STRANGE}`,
  ]]],
  ["a subprotocol", to("api.openai.com"), [[
    "sec-websocket-protocol",
    `realtime, openai-insecure-api-key.${STRANGE}`,
  ]]],
  ["an encoded request for a token", to("auth.openai.com"), [[":path", "/oauth/token"], [
    "content-encoding",
    "x",
  ]]],
  ["the host of an mcp credential", to("mcp.example.com"), [["authorization", `Bearer ${STRANGE}`]]],
];

Deno.test(
  "no head carries an account of the guest to a provider",
  world(added, async ({ open, refs }) => {
    for (const [name, place, headers] of HEADS) {
      const broker = await open(undefined, "vm-a", "stored");
      const { substitutions } = assertThrows(
        () => send(broker, place, headers),
        CredentialDenied,
        REASON,
        name,
      );
      assertEquals([substitutions[0].outcome, JSON.stringify(substitutions).includes(STRANGE)], [
        "denied",
        false,
      ], name);
    }
    const broker = await open(undefined, "vm-a", "stored");
    // A stored account beside the guest's own.
    const both: Header[] = [["x-api-key", refs.anthropic], ["authorization", `Bearer ${STRANGE}`]];
    assertThrows(() => send(broker, ANTHROPIC, both), CredentialDenied, REASON);
    const joined: Header[] = [["authorization", `Bearer ${STRANGE}, Bearer ${refs.anthropic}`]];
    assertThrows(() => send(broker, ANTHROPIC, joined), CredentialDenied, REASON);
    // Its own key as the ref that sbx gave it, in this request or an earlier one.
    const [[, ref]] = broker.capture("api.anthropic.com", [["x-api-key", SHAPED]]).headers;
    assertThrows(() => send(broker, ANTHROPIC, [["x-api-key", ref]]), CredentialDenied, REASON);
  }),
);

Deno.test(
  "stored accounts, requests of nobody, and other hosts pass",
  world(added, async ({ open, refs }) => {
    const broker = await open(undefined, "vm-a", "stored");
    const sent = (place: Destination, ...headers: Header[]) => send(broker, place, headers).headers;
    assertEquals(sent(ANTHROPIC, ["x-api-key", refs.anthropic]), [["x-api-key", KEY.anthropic]]);
    assertEquals(sent(to("api.openai.com"), ["authorization", `Bearer ${refs.openai}`]), [
      ["authorization", `Bearer ${KEY.openai}`],
    ]);
    for (const pair of [`me:${refs.github}`, `${refs.github}:x-oauth-basic`]) {
      assertEquals(sent(to("github.com"), ["authorization", basic(pair)]), [
        ["authorization", basic(pair.replace(refs.github, KEY.github))],
      ]);
    }
    assertStringIncludes(
      sent(to("www.googleapis.com"), [":path", `/x?key=${refs.google}`])[0][1],
      KEY.google,
    );
    // The secret itself, if a program knows it: it is of the store.
    assertEquals(sent(ANTHROPIC, ["x-api-key", KEY.anthropic]), [["x-api-key", KEY.anthropic]]);
    const nobody: Header[] = [[":path", "/v1/models?limit=1"], ["cookie", "__cf_bm=x; _cfuvid=y"], [
      "accept",
      "*/*",
    ]];
    assertEquals(sent(ANTHROPIC, ...nobody), nobody);
    const elsewhere: Header[] = [["authorization", `Bearer ${STRANGE}`]];
    assertEquals(sent(to("registry.example.com"), ...elsewhere), elsewhere);
    broker.grant({ providers: ["openai"], accounts: "stored" });
    assertThrows(
      () => sent(ANTHROPIC, ["x-api-key", refs.anthropic]),
      CredentialDenied,
      "not granted to this VM",
    );
    const any = await open();
    assertEquals(send(any, ANTHROPIC, [["x-api-key", STRANGE]]).headers, [["x-api-key", STRANGE]]);
  }),
);

Deno.test(
  "no request for a token spends a token or a code of the guest",
  world(added, async ({ open, refs }) => {
    const broker = await open(undefined, "vm-a", "stored");
    const place = { ...to("auth.openai.com"), direction: "request", path: "/oauth/token" } as const;
    const pass = (text: string) => {
      const filter = broker.bodies(place)!;
      return new TextDecoder().decode(filter.push(new TextEncoder().encode(text))) +
        new TextDecoder().decode(filter.end());
    };
    const refused = [
      `grant_type=refresh_token&refresh_token=${STRANGE}`,
      `grant_type=authorization_code&code=abc&client_id=app`,
      `grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=e30.e30.x`,
      `grant_type=refresh_token&refresh%5Ftoken=${STRANGE}`,
      `a=b;code=abc`,
      JSON.stringify({ grant_type: "authorization_code", code: "abc" }),
      `{"grant_type":"authorization_code","c\\u006fde":"abc"}`,
      `{"refresh_token":"${STRANGE}","refresh_token":"${refs.openai}"}`,
      `{"refresh_token":"${STRANGE}","refresh_token":"${refs.openai}","a":["b"]}`,
      `[{"code":"abc"}]`,
      `--x\r\ncontent-disposition: form-data; name="code"\r\n\r\nabc\r\n--x--`,
      `{"code":"abc"`,
      `a=${"x".repeat(70_000)}`,
    ];
    for (const text of refused) assertThrows(() => pass(text), CredentialDenied, REASON, text.slice(0, 60));
    const form = `grant_type=refresh_token&refresh_token=${refs.openai}&client_id=app`;
    assertEquals(pass(form), form.replace(refs.openai, encodeURIComponent(KEY.openai)));
    assertEquals(
      pass('{"grant_type":"client_credentials","n":1}'),
      '{"grant_type":"client_credentials","n":1}',
    );
    const lenient = broker.bodies({ ...place, path: "/oauth/token/" })!;
    lenient.push(new TextEncoder().encode("code=abc"));
    assertThrows(() => lenient.end(), CredentialDenied, REASON);
  }),
);

Deno.test("a refused account, and a ref at a host of others, are findings; a ref over http is none", () => {
  const rules = (reason: string) => {
    const gate = new TestGate();
    const substitution = {
      provider: "anthropic",
      credential_ref: "unknown",
      outcome: "denied" as const,
      reason,
    };
    gate.refuse(
      {
        common: { event_type: "credential.substitution", source_engine: "network" },
        credential: { substitution },
      },
      { id: "guard-credential", reason },
    );
    return gate.notices.flatMap(({ type, payload }) =>
      type === "finding" ? [[payload.rule_id, payload.severity, payload.tags]] : []
    );
  };
  assertEquals(rules(REASON), [["credential-account", "high", ["credential", "account"]]]);
  assertEquals(rules("the provider does not own this host"), [[
    "credential-host",
    "high",
    ["credential", "host"],
  ]]);
  assertEquals(rules("not over https"), []);
});
