/**
 * Every provider of the catalogue through the real broker: each of its places works, every other one is
 * refused, and its keys are found (docs/design/contracts/09-credentials.md §9, "Providers").
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { claimantOf } from "../../../lib/credential/catalogue.ts";
import { Catalogue, decoySecret, type Definition, DEFINITIONS, Finder } from "../../../lib/credential/mod.ts";
import { providerOfToken } from "../../../lib/credential/token.ts";
import { isProvider } from "../../../lib/credential/provider.ts";
import { providerOf } from "../../../lib/event/mod.ts";
import type { Header } from "../../../lib/network/mod.ts";
import { CredentialDenied } from "../../../lib/network/interface/mod.ts";
import { basic, decode, encode, to, world } from "../../helper/credential.ts";

/** A host that keys of a provider go to. */
function hostOf({ hosts, named_hosts = [], cloud_hosts = [] }: Definition): string {
  const host = hosts[0] ?? named_hosts[0] ?? cloud_hosts.at(-1);
  return host === "*" ? "git.mine.example" : host.replaceAll("*", "us-east-1");
}

const keyOf = ({ id }: Definition) => decoySecret(id);

/** Every way in which a request can carry a text. */
function allPlaces(value: string): Map<string, Header> {
  const places = new Map<string, Header>();
  for (
    const name of new Set(
      DEFINITIONS.flatMap(({ headers = [] }) => headers.map((each) => each.split(": ")[0])),
    )
  ) {
    if (name === "authorization") continue;
    places.set(name, [name, value]);
  }
  for (const scheme of ["bearer", "token", "flyv1", "digest"]) {
    places.set(`authorization: ${scheme}`, ["authorization", `${scheme} ${value}`]);
  }
  places.set("authorization: bare", ["authorization", value]);
  places.set("basic user", ["authorization", basic(`${value}:`)]);
  places.set("basic password", ["authorization", basic(`someone:${value}`)]);
  for (const name of new Set(DEFINITIONS.flatMap(({ queries = [] }) => queries))) {
    places.set(`?${name}`, [":path", `/x?${name}=${value}`]);
  }
  places.set("/bot{key}/", [":path", `/bot${value}/getMe`]);
  places.set("/file/bot{key}/", [":path", `/file/bot${value}/a.txt`]);
  places.set("path", [":path", `/${value}/x`]);
  places.set("x-anything", ["x-anything", value]);
  return places;
}

function placesOf({ headers = [], basic = [], queries = [], paths = [] }: Definition): Set<string> {
  const anyForm = headers.includes("authorization");
  return new Set([
    ...headers,
    ...(anyForm ? [...allPlaces("").keys()].filter((each) => /^(authorization|basic)/.test(each)) : []),
    ...basic.map((half) => `basic ${half}`),
    ...queries.map((name) => `?${name}`),
    ...paths,
  ]);
}

Deno.test(
  "the password of a database travels in no request, and is given at its host and port alone",
  world([
    {
      provider: "postgres",
      secret: "a-secret-of-postgres",
      hosts: ["db.mine.example:5432"],
      database: { user: "app" },
    },
  ], async ({ open, refs, store }) => {
    const broker = await open(["postgres"]);
    for (const [place, header] of allPlaces(refs.postgres)) {
      const inject = () => broker.inject(to("db.mine.example", "https", 5432), [[":path", "/"], header]);
      assertThrows(inject, CredentialDenied, "do not travel here", place);
    }
    assertEquals(broker.databases("db.mine.example", 5432), [
      { system: "postgres", ref: refs.postgres, user: "app" },
    ]);
    assertEquals(broker.login(refs.postgres, "db.mine.example", 5432).secret, "a-secret-of-postgres");
    for (const [host, port] of [["db.mine.example", 5433], ["other.example", 5432]] as const) {
      assertEquals(broker.databases(host, port), []);
      assertThrows(() => broker.login(refs.postgres, host, port), CredentialDenied, "does not own");
    }
    const others = await open(["npm"]);
    assertEquals(others.databases("db.mine.example", 5432), []);
    assertThrows(() => others.login(refs.postgres, "db.mine.example", 5432), CredentialDenied, "not granted");
    await store.revoke(refs.postgres);
    assertEquals(broker.databases("db.mine.example", 5432), []);
    assertThrows(() => broker.login(refs.postgres, "db.mine.example", 5432), CredentialDenied, "revoked");
    assertEquals(broker.guards({ scheme: "https", host: "db.mine.example", port: 443, path: "/" }), false);
  }),
);

Deno.test(
  "a key that signs commits travels in no request",
  world([{ provider: "signing", secret: "base64-of-a-private-key" }], async ({ open, refs }) => {
    const broker = await open(["signing"]);
    for (const [place, header] of allPlaces(refs.signing)) {
      for (const host of ["github.com", "git.mine.example"]) {
        const inject = () => broker.inject(to(host), [[":path", "/"], header]);
        assertThrows(inject, CredentialDenied, "does not own", place);
      }
    }
  }),
);

// Keys that sign travel nowhere: aws_test.ts, ssh_test.ts.
const SENT = DEFINITIONS.filter(({ database, signed_hosts, commits, ssh }) =>
  !database && !signed_hosts && !commits && !ssh
);
for (const definition of SENT) {
  const { id, hosts } = definition;
  const secret = keyOf(definition);
  const host = hostOf(definition);
  const named = hosts.length === 0 && !definition.cloud_hosts ? { hosts: [host] } : {};

  Deno.test(
    `${id}: a key travels in its places and nowhere else`,
    world([{ provider: id, secret, ...named }], async ({ open, refs }) => {
      const broker = await open([id]);
      const allowed = placesOf(definition);
      const sent = allPlaces(secret);
      for (const [place, header] of allPlaces(refs[id])) {
        const inject = (at: string) => broker.inject(to(at), [[":path", "/"], header]).headers[1];
        if (allowed.has(place)) {
          const [name, value] = sent.get(place)!;
          const plain = (text: string) => name === ":path" ? decodeURIComponent(text) : text;
          assertEquals(plain(inject(host)[1]), plain(value), place);
          assertThrows(() => inject("elsewhere.example"), CredentialDenied, "does not own", place);
          assertThrows(() => broker.inject(to(host, "http", 80), [header]), CredentialDenied, "https");
        } else assertThrows(() => inject(host), CredentialDenied, "do not travel here", place);
      }
      const others = await open(id === "npm" ? ["pypi"] : ["npm"]);
      const [, header] = [...allPlaces(refs[id])].find(([place]) => allowed.has(place))!;
      assertThrows(() => others.inject(to(host), [header]), CredentialDenied, "not granted");
    }),
  );

  Deno.test(
    `${id}: a body carries a key to a token endpoint only`,
    world([{ provider: id, secret, ...named }], async ({ open, refs }) => {
      const broker = await open([id]);
      const post = (at: string, path: string) => {
        const body = broker.bodies({
          direction: "request",
          ...to(at),
          path,
          content_type: "application/json",
        })!;
        return decode(body.push(encode(`{"key":"${refs[id]}"}`))) + decode(body.end());
      };
      assert(post(host, "/v1/messages").includes("credential-withheld"));
      for (const place of definition.token_endpoints ?? []) {
        const slash = place.indexOf("/");
        const [at, path] = [place.slice(0, slash), place.slice(slash)];
        assertEquals(JSON.parse(post(at, path)).key, secret, place);
        assert(post(at, `${path}x`).includes("credential-withheld"), place);
      }
    }),
  );
}

Deno.test(
  "the shape of every key is found in a body and taken out of records",
  world([], async ({ open }) => {
    const broker = await open([]);
    for (const { id, keys = [] } of DEFINITIONS) {
      for (const { prefix, min } of keys) {
        const key = prefix + "Q7".repeat(512).slice(0, min);
        const [match, ...more] = new Finder([]).find(`x "${key}" y`);
        assertEquals([match?.text, match?.kind, more], [key, "token", []], prefix);
        assertEquals(providerOfToken(key), id);
        const scrubbed = broker.scrubValue({ log: `sent ${key} there` });
        assertEquals(scrubbed, { log: "sent [redacted] there" });
        const body = broker.bodies({ direction: "request", ...to("elsewhere.example"), path: "/" })!;
        const sent = decode(body.push(encode(`say ${key} `))) + decode(body.end());
        assert(!sent.includes(key) && sent.length === key.length + 5, prefix);
      }
    }
  }),
);

Deno.test(
  "a longer word that begins like a key of one length is none: base64 of an image has such words",
  world([], async ({ open }) => {
    const broker = await open([]);
    const send = (...chunks: string[]) => {
      const body = broker.bodies({ direction: "request", ...to("elsewhere.example"), path: "/" })!;
      return [...chunks.map((chunk) => decode(body.push(encode(chunk)))), decode(body.end())].join("");
    };
    const exact = DEFINITIONS.flatMap(({ keys = [] }) => keys).filter(({ min, max }) => min === max);
    assert(exact.length > 0);
    for (const { prefix, min } of exact) {
      const key = prefix + "Q7".repeat(512).slice(0, min);
      for (const more of ["x", "/", "+", "x".repeat(2000)]) {
        for (const word of [`"+${key}${more}Zm9v"`, `/${key}${more}`]) {
          const at = word.indexOf(key) + key.length;
          assertEquals([send(word), send(word.slice(0, at), word.slice(at))], [word, word]);
        }
      }
      // The end of a chunk is not the end of a word.
      for (const end of ['"', "\n", ",", ""]) {
        const sent = `"credential-withheld${"-".repeat(key.length - 19)}${end}`;
        assertEquals([send(`"${key}${end}`), send(`"${key}`, end)], [sent, sent]);
      }
    }
  }),
);

Deno.test("no provider claims another's host, and each fact has its form", () => {
  const id = /^[a-z][a-z0-9-]{0,31}$/;
  const pattern = /^(?:[a-z0-9*](?:[a-z0-9*-]*[a-z0-9*])?\.)+[a-z]{2,}$/;
  for (const definition of DEFINITIONS) {
    const { hosts, named_hosts = [], never = [], docs, keys = [], models, headers = [] } = definition;
    assert(id.test(definition.id) && isProvider(definition.id) && docs.startsWith("https://"), definition.id);
    const others = DEFINITIONS.filter((each) => each !== definition);
    for (const host of hosts) {
      assert(pattern.test(host), host);
      assertEquals(claimantOf(host, others)?.id, undefined, host);
      // A wildcard stands before, or between, names that only the provider can give.
      assert(
        host.split("*").length <= 2 && host.replace(/^.*\*/, "").split(".").length > 2 || !host.includes("*"),
        host,
      );
    }
    for (const host of [...never, ...named_hosts.filter((each) => each !== "*")]) {
      assert(pattern.test(host), host);
    }
    for (const place of definition.token_endpoints ?? []) {
      assertEquals(Catalogue.BUILT_IN.ownerOf(place.split("/")[0]), definition.id, place);
    }
    for (const header of headers) assert(/^[a-z][a-z0-9-]*(?:: [a-z0-9]+)?$/.test(header), header);
    for (const { prefix, min, max } of keys) {
      assert(/^[A-Za-z0-9_.-]{2,20}$/.test(prefix) && min >= 16 && max >= min && max <= 1024, prefix);
    }
    if (models) {
      const at = [hostOf(definition), ...hosts].map((host) => providerOf(host));
      assert(at.includes(models.provider), definition.id);
    }
  }
  assert(DEFINITIONS.length >= 40);
});

Deno.test("a pattern of hosts has none of the hosts that others serve content from", () => {
  const { ownerOf } = Catalogue.BUILT_IN;
  assertEquals(ownerOf("bedrock.eu-central-1.amazonaws.com"), "bedrock");
  assertEquals(ownerOf("bedrock-runtime.us-gov-west-1.amazonaws.com."), "bedrock");
  // Buckets of these names, at each of the addresses that a bucket has.
  for (const bucket of ["bedrock", "bedrock-runtime", "BEDROCK"]) {
    for (const s3 of ["s3", "s3-us-west-2", "s3-website-us-east-1", "s3-accelerate"]) {
      assertEquals(ownerOf(`${bucket}.${s3}.amazonaws.com`), undefined, `${bucket} ${s3}`);
    }
  }
});

Deno.test(
  "a guest's own key of a provider without a grant goes to that provider as before, and nowhere else",
  world([], async ({ open }) => {
    const broker = await open(["github"]);
    const key = `npm_${"a1".repeat(18)}`;
    const send = (host: string) => {
      const { headers } = broker.capture(host, [["authorization", `Bearer ${key}`]]);
      assert(headers[0][1].startsWith("Bearer credential:blake3:"));
      return broker.inject(to(host), headers).headers[0][1];
    };
    assertEquals(send("registry.npmjs.org"), `Bearer ${key}`);
    assertThrows(() => send("elsewhere.example"), CredentialDenied, "does not own");
    // A key of a service at hosts of its users may be for this host.
    const token: Header[] = [["private-token", `glpat-${"a1".repeat(10)}`]];
    assertEquals(broker.capture("git.mine.example", token).headers, token);
    assert(broker.capture("gitlab.com", token).headers[0][1].startsWith("credential:blake3:"));
    assert(broker.capture("api.github.com", token).headers[0][1].startsWith("credential:blake3:"));
    // Without a shape it stays as it is, unless the profile grants the provider.
    const session = [["authorization", "Bearer anonymous-session-token"]] as Header[];
    assertEquals(broker.capture("hub.docker.com", session).headers, session);
    broker.grant({ providers: ["github"], only: ["github"] });
    assertThrows(() => send("registry.npmjs.org"), CredentialDenied, "not granted");
  }),
);

Deno.test(
  "a key that looks like OpenAI's is the key of the provider that it is sent to",
  world([], async ({ open }) => {
    const broker = await open(["deepseek"]);
    const key = `sk-${"4f".repeat(16)}`;
    const { headers, substitutions } = broker.capture("api.deepseek.com", [[
      "authorization",
      `Bearer ${key}`,
    ]]);
    assertEquals(substitutions.map(({ provider }) => provider), ["deepseek"]);
    assertEquals(broker.inject(to("api.deepseek.com"), headers).headers[0][1], `Bearer ${key}`);
    assertThrows(() => broker.inject(to("api.openai.com"), headers), CredentialDenied, "does not own");
  }),
);

/** The address that git itself uses in place of another. */
async function addressOf(address: string, env: Record<string, string>): Promise<string> {
  const git = new Deno.Command("git", {
    args: ["ls-remote", "--get-url", address],
    env: { ...env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
    cwd: "/",
  });
  return new TextDecoder().decode((await git.output()).stdout).trim();
}

Deno.test(
  "git gets a helper for each forge that is granted, and for hosts that a key names",
  world([
    { provider: "github", secret: "a-secret-of-github" },
    { provider: "gitlab", secret: "a-secret-of-gitlab", hosts: ["git.mine.example"] },
  ], async ({ open, refs }) => {
    const broker = await open(["github", "gitlab"]);
    const env = broker.guestEnv();
    assertEquals(env.GITLAB_TOKEN, refs.gitlab);
    const settings = Array.from({ length: Number(env.GIT_CONFIG_COUNT) }, (_, at) => [
      env[`GIT_CONFIG_KEY_${at}`],
      env[`GIT_CONFIG_VALUE_${at}`],
    ]);
    const helpers = settings.filter(([key]) => key.endsWith(".helper"));
    assertEquals(helpers.map(([key]) => key), [
      "credential.https://github.com.helper",
      "credential.https://gitlab.com.helper",
      "credential.https://git.mine.example.helper",
    ]);
    assert(helpers[2][1].includes("username=oauth2") && helpers[2][1].includes("$GITLAB_TOKEN"));
    const addresses = {
      "git@github.com:o/r.git": "https://github.com/o/r.git",
      "ssh://git@gitlab.com/o/r": "https://gitlab.com/o/r",
      "ssh://git@gitlab.com:22/o/r": "https://gitlab.com/o/r",
      "git@git.mine.example:o/r": "https://git.mine.example/o/r",
      "git@other.example:o/r": "git@other.example:o/r",
      "root@github.com:o/r": "root@github.com:o/r",
    };
    for (const [address, expected] of Object.entries(addresses)) {
      assertEquals(await addressOf(address, env), expected);
    }
    const header: Header = ["authorization", basic(`oauth2:${refs.gitlab}`)];
    assertEquals(
      broker.inject(to("git.mine.example"), [header]).headers[0][1],
      basic("oauth2:a-secret-of-gitlab"),
    );
  }),
);

Deno.test(
  "a program that starts later finds what was added meanwhile, and keeps what a person set",
  world([{ provider: "github", secret: "the-first-of-github" }], async ({ store, open, refs }) => {
    const broker = await open(["github", "npm"]);
    const boot = broker.guestEnv();
    assertEquals(broker.freshEnv(boot), {});
    await store.add([{ provider: "npm", secret: "a-secret-of-npm" }]);
    const [rotated] = await store.add([{ provider: "github", secret: "the-second-of-github" }]);
    await broker.refresh();
    const fresh = broker.freshEnv(boot);
    assertEquals(Object.keys(fresh).sort(), ["GH_TOKEN", "GITHUB_TOKEN", "NODE_AUTH_TOKEN", "NPM_TOKEN"]);
    assertEquals(fresh.GITHUB_TOKEN, rotated.ref);
    assertEquals(broker.freshEnv({ ...boot, NPM_TOKEN: "mine", GH_TOKEN: "mine" }).NPM_TOKEN, undefined);
    await store.revoke(rotated.ref);
    await broker.refresh();
    assertEquals(broker.freshEnv(boot).GITHUB_TOKEN, undefined);
    assertEquals(broker.guestEnv().GITHUB_TOKEN, refs.github);
  }),
);
