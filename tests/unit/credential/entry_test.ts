/** Files of the store, the shapes of tokens, and what a store keeps. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { ENTRIES_MAX, parseStore } from "../../../lib/credential/entry.ts";
import { isSecret, SECRET_MAX, SECRET_MIN } from "../../../lib/credential/form.ts";
import { decoySecret, providerOfToken, TOKEN_MAX, TokenShapes } from "../../../lib/credential/token.ts";
import { readPrivate, stampAt } from "../../../lib/credential/key.ts";
import { ALL, KEY } from "../../helper/credential.ts";

const REF = `credential:blake3:${"0".repeat(64)}`;
const ENTRY = { ref: REF, provider: "mcp", created_at: "2026", source: "added", sealed: "x" };
const LOGIN = { profile: "p", server: "s", url: "u", part: "access" };
const KEY_PLACE = { in: "file", id: "k" };

const storeOf = (entries: unknown, more: object = {}) =>
  JSON.stringify({ version: 1, key: KEY_PLACE, entries, ...more });

Deno.test("entries of a store's file that sbx writes are read", () => {
  const revoked = { ...ENTRY, sealed: undefined, revoked_at: "2026" };
  const full = {
    ...ENTRY,
    label: "l",
    hosts: ["a.test"],
    vms: ["v"],
    decoy: true,
    login: { ...LOGIN, terms: {} },
    source: "captured",
  };
  for (const entries of [[], [ENTRY], [revoked, full], Array(ENTRIES_MAX).fill(ENTRY)]) {
    assertEquals(parseStore(storeOf(entries), "/s").entries.length, entries.length);
  }
  assertEquals(parseStore(storeOf([], { key: { in: "keyring", id: "k", x: 1 } }), "/s"), {
    version: 1,
    key: { in: "keyring", id: "k" },
    entries: [],
  });
});

Deno.test("a store's file with anything else is refused as a whole", () => {
  const credential = "contains an invalid credential";
  const place = "does not name the location of its key";
  const cases: [text: string, problem: string][] = [
    ["{", "is not valid JSON"],
    ["null", "has a version that this sbx does not support"],
    [storeOf([], { version: 2 }), "has a version that this sbx does not support"],
    [storeOf([], { key: undefined }), place],
    [storeOf([], { key: { in: "air", id: "k" } }), place],
    [storeOf([], { key: { in: "file", id: 1 } }), place],
    [storeOf({}), credential],
    [storeOf(Array(ENTRIES_MAX + 1).fill(ENTRY)), credential],
    ...[
      { ref: 1 },
      { ref: `${REF}0` },
      { provider: 1 },
      { provider: "nobody" },
      { label: 1 },
      { label: "x".repeat(1025) },
      { hosts: "a" },
      { hosts: [1] },
      { hosts: Array(65).fill("a") },
      { vms: [1] },
      { created_at: undefined },
      { source: "found" },
      { decoy: false },
      { login: 1 },
      { login: { ...LOGIN, profile: 1 } },
      { login: { ...LOGIN, url: 1 } },
      { login: { ...LOGIN, terms: 1 } },
      { sealed: 1 },
      { sealed: undefined },
      { revoked_at: "2026" },
      { revoked_at: 1, sealed: undefined },
    ].map((change): [string, string] => [storeOf([ENTRY, { ...ENTRY, ...change }]), credential]),
  ];
  for (const [text, problem] of cases) {
    const error = assertThrows(() => parseStore(text, "/s"), SbxError, undefined, text.slice(0, 200));
    assertEquals(
      [error.code, error.message],
      ["credential.store_corrupt", `the credential store /s ${problem}; none of its credentials are used`],
      text.slice(0, 200),
    );
  }
});

Deno.test("a private file is read if it is the user's own, and of the size it may have", async () => {
  const dir = await Deno.makeTempDir();
  const path = `${dir}/f`;
  const problem = () => {
    const error = assertThrows(() => readPrivate(path, 4), SbxError);
    assertEquals(error.code, "credential.store_insecure");
    return [error.message, error.hint];
  };
  try {
    assertEquals([readPrivate(path, 4), stampAt(path)], [undefined, ""]);
    await Deno.writeTextFile(path, "abcd", { mode: 0o600 });
    assertEquals(readPrivate(path, 4), { text: "abcd", stamp: stampAt(path) });
    await Deno.writeTextFile(path, "abcde");
    assertEquals(problem(), [`${path} is over 4 bytes; sbx does not use it`, "move it away"]);
    for (
      const [mode, may, first] of [[0o640, "read", ""], [0o602, "changed", "check it, then: "], [
        0o610,
        "read",
        "",
      ]] as const
    ) {
      await Deno.chmod(path, mode);
      assertEquals(problem(), [
        `${path} can be ${may} by other users (mode 0${mode.toString(8)}); sbx does not use it`,
        `${first}chmod 600 ${path}`,
      ]);
    }
    await Deno.remove(path);
    await Deno.mkdir(path, { mode: 0o700 });
    problem();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("tokens have the shape of their provider, and lengths within its limits", () => {
  const digits = (count: number) => "0a".repeat(count).slice(0, count);
  const shapes: [provider: string, prefix: string, least: number, most: number][] = [
    ["anthropic", "sk-ant-", 16, TOKEN_MAX],
    ["openai", "sk-", 20, TOKEN_MAX],
    ["google", "AIza", 30, 64],
    ["google", "ya29.", 20, TOKEN_MAX],
    ...["ghp_", "gho_", "ghs_", "ghu_", "ghr_", "github_pat_"].map((
      prefix,
    ): [string, string, number, number] => ["github", prefix, 20, 255]),
  ];
  for (const [provider, prefix, least, most] of shapes) {
    const of = (count: number) => providerOfToken(prefix + digits(count));
    assertEquals(
      [of(least - 1), of(least), of(most), of(most + 1)],
      [undefined, provider, provider, undefined],
      prefix,
    );
  }
  assertEquals(TOKEN_MAX, 1024);
  assertEquals(TokenShapes.BUILT_IN.least, 23);
  assertEquals(providerOfToken(`sk-${"a".repeat(40)}`), undefined, "no digit");
  assertEquals(providerOfToken(`ghp_${"a-".repeat(20)}`), undefined);
});

Deno.test("a decoy looks like a secret of its provider, and no two are the same", () => {
  const shapes: Record<string, RegExp> = {
    anthropic: /^sk-ant-api03-\w{93}AA$/,
    openai: /^sk-proj-\w{74}T3BlbkFJ\w{74}$/,
    google: /^AIza\w{35}$/,
    github: /^ghp_\w{36}$/,
    mcp: /^\w{43}$/,
  };
  for (const provider of ALL) {
    const decoys = Array.from({ length: 20 }, () => decoySecret(provider));
    assertEquals(new Set(decoys).size, 20);
    for (const decoy of decoys) {
      assert(shapes[provider].test(decoy) && isSecret(decoy), decoy);
      assertEquals(providerOfToken(decoy), providerOfToken(KEY[provider]));
    }
    // Every letter and digit occurs, also the last ones of the alphabet.
    const chars = new Set(Array.from({ length: 60 }, () => decoySecret(provider)).join(""));
    for (const char of "azAZ09") assert(chars.has(char), `${provider} ${char}`);
  }
});

Deno.test("a secret has visible characters within the limits of a header field", () => {
  const cases: [text: string, is: boolean][] = [
    ["a".repeat(SECRET_MIN - 1), false],
    ["a".repeat(SECRET_MIN), true],
    ["a".repeat(SECRET_MAX), true],
    ["a".repeat(SECRET_MAX + 1), false],
    [`!${"a".repeat(20)}~`, true],
    ...["\x20", "\x7f", "\n", "é"].map((char): [string, boolean] => [`${"a".repeat(20)}${char}`, false]),
  ];
  for (const [text, is] of cases) assertEquals(isSecret(text), is, text.slice(0, 40));
});
