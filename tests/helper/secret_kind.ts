/**
 * Samples of secrets that scanners know, generated from the table of tests/unit/base/redact/secret_kinds.txt.
 */
import type { Random } from "./random.ts";
import { fromRoot } from "./repo.ts";

export interface SecretKind {
  id: string;
  /** word of the name beside the value; `-` where the value stands alone, `!place` for a place of its own */
  name: string;
  shape: string;
}

export interface SecretSample {
  kind: SecretKind;
  secret: string;
  /** a piece of a file with the secret in it */
  text: string;
}

const LOWER = "abcdefghijklmnopqrstuvwxyz";
const DIGITS = "0123456789";
const ALPHABETS: Record<string, string> = {
  h: "0123456789abcdef",
  H: "0123456789ABCDEF",
  a: LOWER + DIGITS,
  A: LOWER + LOWER.toUpperCase() + DIGITS,
  U: LOWER.toUpperCase() + DIGITS,
  w: LOWER + LOWER.toUpperCase() + DIGITS + "_-",
  b: LOWER + LOWER.toUpperCase() + DIGITS + "+/",
  l: LOWER,
  d: DIGITS,
};

/** The kinds of the table. */
export async function readSecretKinds(): Promise<SecretKind[]> {
  const text = await Deno.readTextFile(fromRoot("tests/unit/base/redact/secret_kinds.txt"));
  return text.split("\n").filter((line) => line !== "" && !line.startsWith("#")).map((line) => {
    const [id, name, shape] = line.split(" ");
    return { id, name, shape };
  });
}

/** One sample of a kind. */
export function sampleOf(kind: SecretKind, random: Random): SecretSample {
  const secret = valueOf(kind.shape, random);
  const text = random.pick(placesOf(kind.name))(secret);
  return { kind, secret, text };
}

function valueOf(shape: string, random: Random): string {
  const word = (alphabet: string, length: number) =>
    Array.from({ length }, () => random.pick([...ALPHABETS[alphabet]])).join("");
  const uuid = () => [8, 4, 4, 4, 12].map((length) => word("h", length)).join("-");
  return shape.replaceAll("@uuid", uuid).replaceAll("@UUID", () => uuid().toUpperCase())
    .replaceAll(/<(\w)(\d+)>/g, (_, alphabet, length) => word(alphabet, Number(length)));
}

type Place = (secret: string) => string;

const ALONE: Place[] = [
  (secret) => `2026-11-24T10:00:00.000Z info client sent ${secret} to the server`,
  (secret) => `const value = "${secret}";`,
  (secret) => `{"items":["${secret}"]}`,
  (secret) => `export VALUE=${secret}`,
  (secret) => `curl https://api.example.com/v1/things?id=${secret}&page=2`,
];

const PLACES: Record<string, Place[]> = {
  "!curl-header": [
    (secret) => `curl -H "Authorization: Bearer ${secret}" https://example.com`,
    (secret) => `curl --header 'X-Api-Key: ${secret}' https://example.com`,
    (secret) => `curl -H "Authorization: Basic ${secret}" https://example.com`,
  ],
  "!curl-user": [
    (secret) => `curl -u admin:${secret} https://example.com`,
    (secret) => `curl --user "admin:${secret}" https://example.com`,
  ],
  "!php": [(secret) => `'secret_key' => '${secret}',`],
  "!session": [
    (secret) => `GET / _gitlab_session=${secret}`,
    (secret) => `Cookie: _gitlab_session=${secret}; a=b`,
  ],
  "!kubernetes": [
    (secret) => `apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  blob: ${secret}\n`,
    (secret) => `data:\n  user-pem: "${secret}=="\nkind: "Secret"\n`,
  ],
  "!nuget": [(secret) => `<add key="ClearTextPassword" value="${secret}" />`],
  "!pem": [
    (secret) => `-----BEGIN RSA PRIVATE KEY-----\n${secret}\n${secret}\n-----END RSA PRIVATE KEY-----`,
    (secret) => `key: "-----BEGIN OPENSSH PRIVATE KEY-----\\n${secret}\\n-----END OPENSSH PRIVATE KEY-----"`,
    (secret) => `PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\n${secret}\nPrivate-MAC: 00ff`,
    (secret) => `${secret}\n${secret}\n-----END PRIVATE KEY-----`,
  ],
  "!userinfo": [(secret) => `source https://${secret}@gems.contribsys.com/`],
};

function placesOf(name: string): Place[] {
  if (name === "-") return ALONE;
  if (name in PLACES) return PLACES[name];
  const isWhole = /[_A-Z]/.test(name);
  const names = isWhole
    ? [name]
    : [`${name}_value`, `${name}Key`, `${name.toUpperCase()}_ID`, `${name}-token`];
  return names.flatMap((full): Place[] => [
    (secret) => `${full}=${secret}`,
    (secret) => `${full}: "${secret}"`,
    (secret) => `{"${full}": "${secret}", "page": 2}`,
    (secret) => `const ${full} = '${secret}';`,
    (secret) => `2026-11-24 info set ${full}=${secret} for the run`,
    (secret) => `{"line":"{\\"${full}\\":\\"${secret}\\"}"}`,
    (secret) => `'${full}' => '${secret}',`,
  ]);
}
