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
]);
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
const SERVICE = new RegExp(SERVICES.join("|"), "i");

/** Words at the end of a name that count: the rest of a line may be before it. */
const WORDS_MAX = 5;

/** `strong`: its value is a secret; `weak`: if the value looks like one. */
export type Strength = "strong" | "weak";

/** How much a name says that its value is a secret. */
export function strengthOf(name: string): Strength | undefined {
  const words = wordsOf(name).slice(-WORDS_MAX);
  const last = words.at(-1) ?? "";
  const service = SERVICE.test(name);
  if (ABOUT.has(last)) return service ? "weak" : undefined;
  const pairs = words.slice(1).map((word, at) => `${words[at]} ${word}`);
  if (words.some((word) => STRONG.has(word)) || pairs.some((pair) => STRONG_PAIRS.has(pair))) return "strong";
  if (service || words.some((word) => WEAK.has(word)) || /passw|secret|token|apikey/i.test(name)) {
    return "weak";
  }
  return undefined;
}

/** `["gateway", "token"]` of `gatewayToken`, `GATEWAY_TOKEN` and `gateway token`. */
function wordsOf(name: string): string[] {
  return name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase().split(/[^a-z0-9]+/).filter(Boolean);
}
