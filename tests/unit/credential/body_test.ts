/**
 * Secrets in bodies and environments, and the refs guests get instead
 * (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { placeholderOf, refOf } from "../../../lib/credential/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { added, decode, encode, KEY, to, world } from "../../helper/credential.ts";

Deno.test(
  "bodies: secrets pass at their provider's token endpoint and nowhere else",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    const run = (
      place: { host: string; path: string; content_type?: string; scheme?: string },
      text: string,
    ) => {
      const filter = broker.bodies({ scheme: "https", port: 443, direction: "request", ...place })!;
      const out = [...encode(text)].map((byte) => filter.push(Uint8Array.of(byte)));
      return { text: decode(Buffer.concat([...out, filter.end()])), rows: filter.substitutions };
    };
    const endpoint = { host: "console.anthropic.com", path: "/v1/oauth/token" };
    assertEquals(
      run({ ...endpoint, content_type: "application/json" }, `{"refresh_token":"${refs.anthropic}"}`).text,
      `{"refresh_token":"${KEY.anthropic}"}`,
    );
    const form = `grant_type=refresh_token&refresh_token=${encodeURIComponent(refs.anthropic)}`;
    assertEquals(run(endpoint, form).text, `grant_type=refresh_token&refresh_token=${KEY.anthropic}`);
    const messages = { host: "api.anthropic.com", path: "/v1/messages" };
    const sent = [refs.anthropic, KEY.openai, KEY.mcp, `sk-ant-${"n".repeat(40)}`];
    const { text, rows } = run(messages, JSON.stringify({ say: sent }));
    assertEquals(
      text,
      JSON.stringify({ say: sent.map(({ length }) => placeholderOf(length)) }),
      "same length",
    );
    assert(!sent.some((each) => text.includes(each)));
    assertEquals(rows.map(({ outcome }) => outcome), ["denied", "denied", "denied", "denied"]);
    assertEquals(run({ ...endpoint, scheme: "http" }, form).text.includes(KEY.anthropic), false);
    assertThrows(() => run(endpoint, `refresh_token=${refOf("anthropic", "not there")}`), CredentialDenied);
  }),
);

Deno.test(
  "answers: an OAuth token becomes a usable ref, and an echoed secret does not reach the guest",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    const place = { scheme: "https", port: 443, direction: "response" } as const;
    const oauth = broker.bodies({ ...place, host: "console.anthropic.com", path: "/v1/oauth/token" })!;
    const access = "opaque-access-token-0001";
    const answer = `{"access_token": "${access}", "refresh_token":"sk-ant-ort01-${
      "r".repeat(40)
    }","expires_in":3600}`;
    assertEquals(oauth.push(encode(answer)).length, 0);
    const body = JSON.parse(decode(oauth.end()));
    assertEquals(body.access_token, refOf("anthropic", access));
    assertEquals([body.expires_in, body.refresh_token.startsWith("credential:")], [3600, true]);
    const header: Header[] = [["authorization", `Bearer ${body.access_token}`]];
    assertEquals(broker.inject(to("api.anthropic.com"), header).headers, [[
      "authorization",
      `Bearer ${access}`,
    ]]);

    const before = broker.bodies({ ...place, host: "api.github.com", path: "/user" })!;
    assertEquals(decode(before.push(encode(KEY.github))), KEY.github, "nothing was sent");
    assertEquals([before.searching, before.keepsLength], [false, true]);
    broker.inject(to("api.github.com"), [["authorization", `token ${refs.github}`]]);
    assert(before.searching, "a stream that is open is searched from now on");
    assertEquals(
      decode(Buffer.concat([before.push(encode(KEY.github)), before.end()])),
      placeholderOf(KEY.github.length),
    );
    const echo = broker.bodies({ ...place, host: "api.github.com", path: "/user" })!;
    assertEquals([echo.searching, echo.keepsLength], [true, false]);
    const [cut, whole] = [
      KEY.github.length - 5,
      encode(`you sent ${KEY.github}, ${btoa(`me:${KEY.github}`)}\n`),
    ];
    const out = decode(
      Buffer.concat([echo.push(whole.subarray(0, cut)), echo.push(whole.subarray(cut)), echo.end()]),
    );
    assert(
      out.includes(refs.github) && !out.includes(KEY.github) && !out.includes(btoa(KEY.github).slice(4, -4)),
      out,
    );
  }),
);

Deno.test(
  "guests get refs in their environment, and .env files hold refs",
  world(
    [...added, { provider: "openai", secret: "sk-decoy-1" + "0".repeat(30), decoy: true }],
    async ({ open, refs }) => {
      const broker = await open();
      const env = broker.guestEnv(["anthropic", "openai", "github"]);
      assertEquals(env.ANTHROPIC_API_KEY, refs.anthropic);
      assertEquals([env.OPENAI_API_KEY, env.GH_TOKEN, env.GEMINI_API_KEY], [
        refOf("openai", KEY.openai),
        refs.github,
        undefined,
      ]);
      for (const secret of Object.values(KEY)) assert(!JSON.stringify(env).includes(secret));
      const { text, substitutions } = broker.captureDotEnv(
        `# keys\nexport OPENAI_API_KEY="my-own-openai-key-1"\nPORT=3000\nX=${KEY.github} # why\nGITHUB_TOKEN=${refs.github}\n`,
      );
      assertEquals(
        text,
        `# keys\nexport OPENAI_API_KEY="${
          refOf("openai", "my-own-openai-key-1")
        }"\nPORT=3000\nX=${refs.github} # why\nGITHUB_TOKEN=${refs.github}\n`,
      );
      assertEquals(substitutions.map(({ outcome }) => outcome), ["captured", "brokered"]);
    },
  ),
);

Deno.test(
  "a body with a decoy is refused whole, also at the token endpoint of its provider, and looks like an unknown ref",
  world([{ provider: "github", secret: "ghp_" + "D".repeat(36), decoy: true }], async ({ open, refs }) => {
    const broker = await open();
    const place = {
      scheme: "https",
      host: "github.com",
      port: 443,
      direction: "request",
      path: "/login/oauth/access_token",
    } as const;
    for (const used of [refs.github, "ghp_" + "D".repeat(36)]) {
      const filter = broker.bodies(place)!;
      const error = assertThrows(
        () => [filter.push(encode(`before ${used} after\n`)), filter.end()],
        CredentialDenied,
        "unknown ref",
      );
      const [{ reason, credential_ref }] = error.substitutions;
      assertEquals([reason, credential_ref], ["decoy", refs.github]);
    }
  }),
);

Deno.test(
  "an endless answer of a token endpoint is aborted",
  world([], async ({ open }) => {
    const broker = await open();
    const place = { scheme: "https", host: "oauth2.googleapis.com", port: 443, path: "/token" } as const;
    const filter = broker.bodies({ ...place, direction: "response" })!;
    const chunk = new Uint8Array(100_000);
    filter.push(chunk);
    filter.push(chunk);
    assertThrows(() => filter.push(chunk), CredentialDenied);
  }),
);

Deno.test(
  "bodies: each secret is on record once, up to a number, and replaced beyond it",
  world([], async ({ open }) => {
    const filter = (await open()).bodies({
      ...to("api.example.com"),
      direction: "request",
      path: "/",
    })!;
    const secrets = Array.from(
      { length: 40 },
      (_, at) => `sk-ant-api03-${String(at).padStart(2, "0").repeat(20)}`,
    );
    const text = [...secrets.slice(0, 2), ...secrets].join(" ");
    const out = decode(Buffer.concat([filter.push(encode(text)), filter.end()]));
    assertEquals(out.split(" ").map((each) => each.includes("sk-ant")), Array(42).fill(false));
    assertEquals(
      filter.substitutions.map((row) => row.credential_ref),
      secrets.slice(0, 32).map((secret) => refOf("anthropic", secret)),
    );
  }),
);

Deno.test(
  "environments: of several credentials of a provider, the one added last",
  world(
    [..."abcde"].map((each) => ({ provider: "openai", secret: `sk-proj-${each.repeat(30)}` })),
    async ({ open }) => {
      const env = (await open()).guestEnv(["openai"]);
      assertEquals(env.OPENAI_API_KEY, refOf("openai", `sk-proj-${"e".repeat(30)}`));
    },
  ),
);
