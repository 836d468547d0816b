/**
 * The broker at the upstream boundary: refs for guests, secrets for upstreams, and denials
 * (docs/design/contracts/09-credentials.md §9).
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { CredentialStore, DecoyUsed, type Provider, REASON, refOf } from "../../../lib/credential/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { CredentialDenied, type Destination } from "../../../lib/network/interface/mod.ts";
import { added, ALL, basic, KEY, to, world } from "../../helper/credential.ts";

Deno.test(
  "a ref becomes the secret for its provider's own hosts, in every format of clients",
  world(added, async ({ open, refs }) => {
    const broker = await open();
    const cases: [host: string, header: Header, expected: string, port?: number][] = [
      ["api.anthropic.com", ["x-api-key", refs.anthropic], KEY.anthropic],
      ["API.Anthropic.com.", ["authorization", `Bearer ${refs.anthropic}`], `Bearer ${KEY.anthropic}`],
      ["api.openai.com", ["authorization", `bearer ${refs.openai}`], `bearer ${KEY.openai}`],
      ["generativelanguage.googleapis.com", ["x-goog-api-key", refs.google], KEY.google],
      [
        "europe-west1-aiplatform.googleapis.com",
        ["authorization", `Bearer ${refs.google}`],
        `Bearer ${KEY.google}`,
      ],
      [
        "generativelanguage.googleapis.com",
        [":path", `/v1/m?alt=sse&key=${refs.google}`],
        `/v1/m?alt=sse&key=${KEY.google}`,
      ],
      [
        "generativelanguage.googleapis.com",
        [":path", `/v1/m?key=${encodeURIComponent(refs.google)}`],
        `/v1/m?key=${KEY.google}`,
      ],
      ["api.github.com", ["authorization", `token ${refs.github}`], `token ${KEY.github}`],
      [
        "github.com",
        ["authorization", basic(`x-access-token:${refs.github}`)],
        basic(`x-access-token:${KEY.github}`),
      ],
      [
        "github.com",
        ["authorization", basic(`${refs.github}:x-oauth-basic`)],
        basic(`${KEY.github}:x-oauth-basic`),
      ],
      ["mcp.example.com", ["authorization", `Bearer ${refs.mcp}`], `Bearer ${KEY.mcp}`],
      ["other.example.com", ["authorization", `Bearer ${refs.mcp}`], `Bearer ${KEY.mcp}`, 8443],
    ];
    for (const [host, header, expected, port] of cases) {
      const { headers, substitutions, released } = broker.inject(to(host, "https", port), [
        ["accept", "*/*"],
        header,
      ]);
      assertEquals(headers, [["accept", "*/*"], [header[0], expected]], host);
      assertEquals(substitutions.map(({ outcome }) => outcome), ["injected"]);
      assert(released && !released.aborted);
      assert(!JSON.stringify(substitutions).includes(expected.slice(-20)));
    }
    const plain: Header[] = [["authorization", "Bearer something-of-the-guest"]];
    assertEquals(broker.inject(to("intranet.example.com"), plain), { headers: plain, substitutions: [] });
  }),
);

Deno.test(
  "a ref is refused everywhere else, with the reason in its row",
  world(
    [...added, { provider: "github", secret: "ghp_" + "D".repeat(36), decoy: true }],
    async ({ open, refs, store }) => {
      const gone = "sk-ant-api03-" + "gone".repeat(20);
      await store.add([{ provider: "anthropic", secret: gone }]);
      await store.revoke(refOf("anthropic", gone));
      await store.add([{ provider: "anthropic", secret: "sk-ant-other-" + "vm".repeat(20), vm: "vm-b" }]);
      const broker = await open(ALL.filter((name) => name !== "openai"));
      const a: Header = ["x-api-key", refs.anthropic];
      const cases: [reason: string, Destination, Header][] = [
        [REASON.wrongHost, to("evil.example.com"), a],
        [REASON.wrongHost, to("api.anthropic.com.evil.example"), a],
        [REASON.wrongHost, to("xapi.anthropic.com"), a],
        [REASON.wrongHost, to("api.github.com"), a],
        [REASON.wrongHost, to("mcp.example.com"), a],
        [REASON.wrongHost, to("other.example.com"), ["authorization", `Bearer ${refs.mcp}`]],
        [REASON.wrongHost, to("storage.googleapis.com"), ["x-goog-api-key", refs.google]],
        [REASON.notHttps, to("api.anthropic.com", "http", 80), a],
        [REASON.notGranted, to("api.openai.com"), ["authorization", `Bearer ${refs.openai}`]],
        [REASON.notGranted, to("api.anthropic.com"), [
          "x-api-key",
          refOf("anthropic", "sk-ant-other-" + "vm".repeat(20)),
        ]],
        [REASON.revoked, to("api.anthropic.com"), ["x-api-key", refOf("anthropic", gone)]],
        [REASON.unknown, to("api.anthropic.com"), ["x-api-key", refOf("anthropic", "nobody knows this")]],
        [REASON.malformed, to("api.anthropic.com"), ["x-api-key", refs.anthropic.slice(0, -1)]],
        [REASON.malformed, to("anything.example.com"), ["x-note", "credential%3Ablake3%3A"]],
        [REASON.wrongPlace, to("api.anthropic.com"), ["user-agent", refs.anthropic]],
        [REASON.wrongPlace, to("api.anthropic.com"), [":path", `/v1/${refs.anthropic}`]],
        [REASON.wrongPlace, to("generativelanguage.googleapis.com"), [":path", `/v1?prompt=${refs.google}`]],
        [REASON.wrongPlace, to("generativelanguage.googleapis.com"), [":path", `/v1?${refs.google}=1`]],
        [REASON.decoy, to("github.com"), [
          "authorization",
          basic(`x:${refOf("github", "ghp_" + "D".repeat(36))}`),
        ]],
      ];
      for (const [reason, destination, header] of cases) {
        const error = assertThrows(
          () => broker.inject(destination, [header]),
          CredentialDenied,
          undefined,
          // A decoy looks like a ref that nobody knows.
          reason === REASON.decoy
            ? `a credential in authorization was not sent to github.com: ${REASON.unknown}`
            : reason,
        );
        assertEquals([error.code, error.substitutions.map((row: { reason?: string }) => row.reason)], [
          "credential.denied",
          [
            reason,
          ],
        ]);
        assertEquals(error instanceof DecoyUsed, reason === REASON.decoy);
      }
    },
  ),
);

Deno.test(
  "a secret sent by a guest becomes a stored ref, valid only for its owner",
  world([], async ({ open, store }) => {
    const broker = await open();
    const cases: [host: string, Header, provider: Provider, secret: string][] = [
      ["api.anthropic.com", ["x-api-key", KEY.anthropic], "anthropic", KEY.anthropic],
      ["evil.example.com", ["x-note", `take ${KEY.github} please`], "github", KEY.github],
      [
        "api.openai.com",
        ["authorization", "Bearer opaque.token.of.nobody"],
        "openai",
        "opaque.token.of.nobody",
      ],
      ["github.com", ["authorization", basic("me:opaque-password-1")], "github", "opaque-password-1"],
      ["x.example.com", [":path", `/a?key=${KEY.google}`], "google", KEY.google],
      [
        "generativelanguage.googleapis.com",
        [":path", "/v1?alt=sse&key=opaque-key-1"],
        "google",
        "opaque-key-1",
      ],
    ];
    for (const [host, header, provider, secret] of cases) {
      const { headers: [[, value]], substitutions } = broker.capture(host, [header]);
      const ref = refOf(provider, secret);
      const text = value.startsWith("Basic ") ? Buffer.from(value.slice(6), "base64").toString() : value;
      assert(text.includes(ref) && !text.includes(secret), `${host}: ${text}`);
      assertEquals(substitutions.map((row) => [row.outcome, row.credential_ref]), [["captured", ref]]);
      assertEquals(broker.capture(host, [header]).substitutions[0].outcome, "brokered");
    }
    const [captured] = [broker.capture("api.anthropic.com", [["x-api-key", KEY.anthropic]]).headers];
    assertEquals(broker.inject(to("api.anthropic.com"), captured).headers, [["x-api-key", KEY.anthropic]]);
    const leak = broker.capture("evil.example.com", [["x-note", `take ${KEY.github} please`]]).headers;
    assertThrows(() => broker.inject(to("evil.example.com"), leak), CredentialDenied, REASON.wrongHost);
    await broker.flush();
    assertEquals(
      store.list().map(({ source, vms }) => [source, vms]),
      cases.map(() => ["captured", ["vm-a"]]),
    );

    const again = await open(ALL, "vm-a");
    assertEquals(again.inject(to("api.anthropic.com"), captured).headers, [["x-api-key", KEY.anthropic]]);
    const stranger = await open(ALL, "vm-b");
    assertThrows(
      () => stranger.inject(to("api.anthropic.com"), captured),
      CredentialDenied,
      REASON.notGranted,
    );
    const other: Header[] = [["authorization", "Bearer an-intranet-token-1"], ["cookie", "a=b"]];
    assertEquals(broker.capture("intranet.example.com", other), { headers: other, substitutions: [] });
  }),
);

Deno.test(
  "a secret for a host to which a person bound another one is captured there",
  world(added, async ({ open }) => {
    const broker = await open();
    const secret = "another/secret+of=the:guest-0123456789";
    const header = (host: string) =>
      broker.capture(host, [["authorization", `Bearer ${secret}`]]).headers[0][1];
    assertEquals(header("unbound.example.com"), `Bearer ${secret}`);
    assertEquals(header("mcp.example.com"), `Bearer ${refOf("mcp", secret)}`);
    await broker.flush();
  }),
);

Deno.test(
  "a request with several refs ends when any one of them is revoked",
  world(added, async ({ open, refs, store }) => {
    const second = KEY.anthropic.replaceAll("Zq7", "Xw4");
    await store.add([{ provider: "anthropic", secret: second }]);
    const broker = await open();
    const { released } = broker.inject(to("api.anthropic.com"), [
      ["x-api-key", refs.anthropic],
      ["authorization", `Bearer ${refOf("anthropic", second)}`],
    ]);
    const ended = new Promise((resolve) => released!.addEventListener("abort", resolve));
    await new CredentialStore(store.path).revoke(refOf("anthropic", second));
    const awake = setInterval(() => {}, 1000);
    await ended;
    clearInterval(awake);
  }),
);

Deno.test(
  "revoking stops current and later requests in every process, and removes the secret from the file",
  world(added, async ({ open, refs, store }) => {
    const [a, b] = [await open(), await open(ALL, "vm-b")];
    const header: Header[] = [["x-api-key", refs.anthropic]];
    const flights = [a, b].map((broker) => broker.inject(to("api.anthropic.com"), header).released!);
    const ends = flights.map((signal) => new Promise((ended) => signal.addEventListener("abort", ended)));
    await new CredentialStore(store.path).revoke(refs.anthropic);
    assertThrows(() => a.inject(to("api.anthropic.com"), header), CredentialDenied, REASON.revoked);
    // The broker's own timer keeps no program alive.
    const awake = setInterval(() => {}, 1000);
    await Promise.all(ends);
    clearInterval(awake);
    assertEquals(store.list().find(({ ref }) => ref === refs.anthropic)!.sealed, undefined);
    assertEquals(a.capture("api.anthropic.com", [["x-api-key", KEY.anthropic]]).headers, header);
    assert(!a.scrub(`say ${KEY.anthropic}`).includes(KEY.anthropic), "still recognized");
    await a.flush();

    await store.add([{ provider: "anthropic", secret: KEY.anthropic }]);
    await a.refresh();
    assertEquals(a.inject(to("api.anthropic.com"), header).headers, [["x-api-key", KEY.anthropic]]);
  }),
);

Deno.test(
  "a credential revoked while it is being opened stays revoked",
  world([], async ({ open, store }) => {
    await store.add([{ provider: "anthropic", secret: KEY.anthropic }]);
    const [ref, active] = [refOf("anthropic", KEY.anthropic), await Deno.readTextFile(store.path)];
    await store.revoke(ref);
    const revoked = await Deno.readTextFile(store.path);
    const broker = await open();
    const put = (text: string) => {
      Deno.writeTextFileSync(`${store.path}.new`, text, { mode: 0o600 });
      Deno.renameSync(`${store.path}.new`, store.path);
    };
    const use = () => broker.inject(to("api.anthropic.com"), [["x-api-key", ref]]);
    put(active);
    assertThrows(use, CredentialDenied);
    put(revoked);
    assertThrows(use, CredentialDenied, REASON.revoked);
    await broker.refresh();
    assertThrows(use, CredentialDenied, REASON.revoked);
  }),
);

Deno.test(
  "a request of the host gets the secret for the server the credential is bound to, and for no other",
  world(
    [
      ...added,
      { provider: "mcp", secret: "local-mcp-secret", hosts: ["127.0.0.1:8080"] },
      { provider: "mcp", secret: "mcp-secret-without-hosts" },
    ],
    async ({ open }) => {
      const broker = await open([]);
      const [remote, local] = [refOf("mcp", KEY.mcp), refOf("mcp", "local-mcp-secret")];
      const use = await broker.use(remote, new URL("https://mcp.example.com/sse"));
      assertEquals([use.secret, use.substitutions.map(({ outcome }) => outcome)], [KEY.mcp, ["injected"]]);
      assertEquals(
        (await broker.use(local, new URL("http://127.0.0.1:8080/mcp"))).secret,
        "local-mcp-secret",
      );
      assertEquals(
        (await broker.use(refOf("github", KEY.github), new URL("https://api.githubcopilot.com/mcp"))).secret,
        KEY.github,
      );
      const refusals: [ref: string, url: string, reason: string][] = [
        [remote, "http://mcp.example.com/", REASON.notHttps],
        [remote, "https://evil.example.com/", REASON.wrongHost],
        [local, "http://127.0.0.1:9090/", REASON.wrongHost],
        [refOf("mcp", "mcp-secret-without-hosts"), "https://mcp.example.com/", REASON.wrongHost],
        [refOf("mcp", "nobody knows it"), "https://mcp.example.com/", REASON.unknown],
      ];
      for (const [ref, url, reason] of refusals) {
        await assertRejects(() => broker.use(ref, new URL(url)), CredentialDenied, reason);
      }
      // Corp leaves the provider out for the host's own requests too; a key of no provider is for its server.
      broker.grant({ providers: [], only: ["anthropic"] });
      const github = () =>
        broker.use(refOf("github", KEY.github), new URL("https://api.githubcopilot.com/mcp"));
      await assertRejects(github, CredentialDenied, REASON.notGranted);
      assertEquals((await broker.use(remote, new URL("https://mcp.example.com/sse"))).secret, KEY.mcp);
    },
  ),
);
