/** Names of fields, variables and headers whose values are secrets. */

/** Words of a name whose value is a secret, whatever it is. */
const STRONG = new Set([
  "password",
  "passwd",
  "passphrase",
  "passcode",
  "pass",
  "pwd",
  "pw",
  "secret",
  "token",
  "apikey",
  "credential",
  "credentials",
  "creds",
  "authorization",
  "bearer",
  "cookie",
  "jwt",
  // German, French, Spanish, Portuguese, Italian, Dutch, Polish, Turkish, Czech, Swedish, Danish, Finnish.
  "passwort",
  "kennwort",
  "geheimnis",
  "zugangsdaten",
  "passe",
  "motdepasse",
  "mdp",
  "jeton",
  "contrasena",
  "secreto",
  "senha",
  "segredo",
  "segreto",
  "parola",
  "wachtwoord",
  "geheim",
  "haslo",
  "sifre",
  "heslo",
  "losenord",
  "adgangskode",
  "salasana",
]);
/** Such words of other letters, as parts of an expression: also Russian, Japanese, Chinese and Korean. */
export const FOREIGN_NAMES = [
  "contrase\u00f1a",
  "contrasen\u0303a",
  "has\u0142o",
  "l\u00f6senord",
  "\u015fifre",
  "s\u0327ifre",
  "zugangsschl\u00fcssel",
  "\u043f\u0430\u0440\u043e\u043b\u044c",
  "\u0441\u0435\u043a\u0440\u0435\u0442",
  "\u0442\u043e\u043a\u0435\u043d",
  "\u043a\u043b\u044e\u0447",
  "\u30d1\u30b9\u30ef\u30fc\u30c9",
  "\u6697\u8a3c\u756a\u53f7",
  "\u79d8\u5bc6(?:\u9375|\u306e\u8a00\u8449)?",
  "\u30c8\u30fc\u30af\u30f3",
  "\u5bc6\u7801",
  "\u5bc6\u78bc",
  "\u53e3\u4ee4",
  "\u5bc6\u94a5",
  "\u5bc6\u9470",
  "\u4ee4\u724c",
  "\ube44\ubc00\ubc88\ud638",
].join("|");
/** Letters without which no such word is in a text. */
export const FOREIGN_LETTER = /[\u00c0-\u024f\u0303\u0327\u0400-\u04ff\u3040-\u9fff\uac00-\ud7af]/;
const FOREIGN_NAME = new RegExp(FOREIGN_NAMES, "i");
/** Words of names of passwords, which may have spaces. */
const PASSWORD = /pass|pwd|kennwort|contrase|senha|parola|wachtwoord|haslo|sifre|heslo/i;
/** The last two words of such a name. */
const STRONG_PAIRS = new Set(["api key", "access key", "private key", "encryption key", "signing key"]);
/** Words of a name whose value is a secret if it looks like one. */
const WEAK = new Set([
  "key",
  "auth",
  "access",
  "api",
  "session",
  "sid",
  "otp",
  "pin",
  "signature",
  "sig",
  "nonce",
  "salt",
]);
/** Words after which a name is about a secret and not one. */
const ABOUT = new Set([
  "id",
  "ids",
  "name",
  "names",
  "type",
  "kind",
  "file",
  "files",
  "path",
  "dir",
  "url",
  "uri",
  "host",
  "hosts",
  "endpoint",
  "length",
  "count",
  "size",
  "limit",
  "max",
  "min",
  "in",
  "source",
  "provider",
  "providers",
  "store",
  "place",
  "expires",
  "at",
]);
/** Services whose keys have no shape of their own. */
const SERVICES = [
  "adafruit",
  "adobe",
  "airtable",
  "algolia",
  "alibaba",
  "anthropic",
  "artifactory",
  "asana",
  "atlassian",
  "aws",
  "azure",
  "beamer",
  "bintray",
  "bitbucket",
  "bittrex",
  "cloudflare",
  "codecov",
  "cohere",
  "coinbase",
  "confluence",
  "confluent",
  "contentful",
  "contribsys",
  "datadog",
  "discord",
  "droneci",
  "dropbox",
  "etsy",
  "facebook",
  "fastly",
  "finicity",
  "finnhub",
  "flickr",
  "freshbooks",
  "gitter",
  "gocardless",
  "heroku",
  "hubspot",
  "intercom",
  "jfrog",
  "jira",
  "kraken",
  "kucoin",
  "launchdarkly",
  "linear",
  "linkedin",
  "linked[_-]in",
  "lob",
  "looker",
  "mailchimp",
  "mailgun",
  "mapbox",
  "mattermost",
  "meraki",
  "message[_-]?bird",
  "netlify",
  "new[_-]?relic",
  "new[_-]?york[_-]?times",
  "nytimes",
  "okta",
  "openai",
  "plaid",
  "private[_-]?ai",
  "rapidapi",
  "sendbird",
  "sentry",
  "slack",
  "snyk",
  "sonar",
  "square",
  "stripe",
  "sumo",
  "telegr",
  "travis",
  "twilio",
  "twitch",
  "twitter",
  "typeform",
  "xray",
  "yandex",
  "zendesk",
];
const SERVICE = new RegExp(SERVICES.join("|"));
const INSIDE = "passw|secret|token|apikey|kennwort|wachtwoord";
const WEAK_INSIDE = new RegExp(INSIDE);
/** Most names have none of this, and their words need no check. */
const RELEVANT = new RegExp([...STRONG, ...WEAK, INSIDE, ...SERVICES].join("|"));

/** Words at the end of a name that count: the rest of a line may be before it. */
const WORDS_MAX = 5;

/** `strong`: its value is a secret; `weak`: if the value looks like one. */
export type Strength = "strong" | "weak";

/** Strengths of names looked up before, at most so many: a log has few names, many times. */
const known = new Map<string, Strength | undefined>();
const KNOWN_MAX = 2000;

/** How much a name says that its value is a secret. */
export function strengthOf(name: string): Strength | undefined {
  const found = known.get(name);
  if (found !== undefined || known.has(name)) return found;
  if (known.size >= KNOWN_MAX) known.clear();
  const strength = judge(name);
  known.set(name, strength);
  return strength;
}

function judge(name: string): Strength | undefined {
  if (FOREIGN_LETTER.test(name) && FOREIGN_NAME.test(name)) return "strong";
  const lower = name.toLowerCase();
  if (!RELEVANT.test(lower)) return undefined;
  const words = wordsOf(name).slice(-WORDS_MAX);
  const last = words.at(-1) ?? "";
  const service = SERVICE.test(lower);
  if (ABOUT.has(last)) return service ? "weak" : undefined;
  const pairs = words.slice(1).map((word, at) => `${words[at]} ${word}`);
  if (words.some((word) => STRONG.has(word)) || pairs.some((pair) => STRONG_PAIRS.has(pair))) return "strong";
  if (
    service || words.some((word) => WEAK.has(word)) ||
    WEAK_INSIDE.test(lower)
  ) {
    return "weak";
  }
  return undefined;
}

/** Tests for the name of a password. */
export function isPassword(name: string): boolean {
  return PASSWORD.test(name);
}

/** `["gateway", "token"]` of `gatewayToken`, `GATEWAY_TOKEN` and `gateway token`. */
function wordsOf(name: string): string[] {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);
}
