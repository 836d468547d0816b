/**
 * Tokens of services by the prefixes that these document. Each pattern begins at the beginning of a word, and has bounded
 * repetitions: a search takes time in proportion to its text, whatever the text is.
 */
import type { Span } from "./span.ts";

const WORD = "[\\w-]";
const ALNUM = "[A-Za-z0-9]";
const HEX = "[0-9a-fA-F]";
const BASE64 = "[\\w+/=-]";
const DOTTED = "[\\w.=-]";
/** Longest token, in characters. */
const MOST = 4096;

/** Prefix, the characters behind it, and the fewest of these. */
const PREFIXES: readonly (readonly [prefix: string, char: string, least: number])[] = [
  ["A3-[A-Z0-9]{6}-", "[A-Z0-9-]", 20], // 1Password
  ["ops_eyJ", BASE64, 50],
  ["p8e-", ALNUM, 20], // Adobe
  ["AGE-SECRET-KEY-1", "[A-Z0-9]", 30],
  ["LTAI", ALNUM, 12], // Alibaba
  ["sk-ant-", WORD, 16],
  ["sk-(?=[A-Za-z_-]{0,99}\\d)", WORD, 20],
  ["AKCp", ALNUM, 50], // Artifactory
  ["cmVmd", ALNUM, 50],
  ["ATATT3", DOTTED, 50], // Atlassian
  ["(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]", 16], // AWS
  ["ABSK", BASE64, 40], // AWS Bedrock
  ["bedrock-api-key-", BASE64, 20],
  ["4b1d", ALNUM, 38], // ClickHouse
  ["(?:CLOJARS|clojars|Clojars)_", ALNUM, 40],
  ["v1\\.0-", "[0-9a-f-]", 100], // Cloudflare
  ["dapi", HEX, 32], // Databricks
  ["dnkey-", BASE64, 40], // Defined Networking
  ["do[opr]_v1_", HEX, 40], // DigitalOcean
  ["dp\\.[a-z]{2,5}\\.", ALNUM, 40], // Doppler
  ["duffel_(?:test|live)_", BASE64, 30],
  ["dt0[a-z]\\d\\d\\.", "[A-Za-z0-9.]", 60], // Dynatrace
  ["EZ[AT]K", ALNUM, 40], // EasyPost
  ["EAA[MC]", ALNUM, 60], // Facebook
  ["EAAA", WORD, 22], // Square
  ["sq0[a-z]{3}-", WORD, 22],
  ["FLW(?:SECK|PUBK)(?:_TEST)?-", "[A-Za-z0-9-]", 12], // Flutterwave
  ["fo1_", WORD, 40], // Fly.io
  ["fm(?:1[ar]|2)_", BASE64, 60],
  ["fio-u-", BASE64, 40], // Frame.io
  ["gh[pousr]_", ALNUM, 20],
  ["github_pat_", "\\w", 20],
  ["gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|rtr|soat)-", "[\\w.-]", 15], // GitLab
  ["GR1348941", WORD, 20],
  ["eyJrIjoi", BASE64, 40], // Grafana
  ["glc_", BASE64, 30],
  ["glsa_", "\\w", 30],
  ["[ps]at\\.", DOTTED, 60], // Harness
  ["HRKU-", WORD, 40], // Heroku
  ["(?:hf|api_org)_", ALNUM, 30], // Hugging Face
  ["ico-", ALNUM, 32], // Infracost
  ["s-s4t2(?:ud|af)-", HEX, 40], // 42 Intra
  ["ZXlK", BASE64, 40], // JWT in base64
  ["lin_(?:api|oauth)_", ALNUM, 30], // Linear
  ["ntn_", ALNUM, 40], // Notion
  ["npm_", ALNUM, 30],
  ["API-", "[A-Z0-9]", 26], // Octopus Deploy
  ["sha256~", WORD, 40], // OpenShift
  ["pplx-", ALNUM, 40], // Perplexity
  ["pscale_(?:tkn|oauth|pw)_", DOTTED, 30], // PlanetScale
  ["PMAK-", "[0-9a-fA-F-]", 40], // Postman
  ["pnu_", ALNUM, 30], // Prefect
  ["pul-", HEX, 40], // Pulumi
  ["pypi-", WORD, 50],
  ["rdme_", ALNUM, 60], // ReadMe
  ["rubygems_", HEX, 40],
  ["tk-(?:us|eu)-", WORD, 40], // Scalingo
  ["SG\\.", DOTTED, 40], // SendGrid
  ["x(?:key|smtp)sib-", "[A-Za-z0-9-]", 60], // Sendinblue
  ["sntry[su]_", BASE64, 40], // Sentry
  ["sm_[aps]at_", ALNUM, 16], // SettleMint
  ["shippo_(?:live|test)_", HEX, 30],
  ["shp(?:at|ca|pa|ss)_", HEX, 30], // Shopify
  ["xox[a-z](?:\\.xox[bp])?-", WORD, 8], // Slack
  ["xapp-", WORD, 20],
  ["sgp_", "\\w", 30], // Sourcegraph
  ["(?:sk|rk)_(?:test|live|prod)_", ALNUM, 10], // Stripe
  ["whsec_", BASE64, 5],
  ["pat(?=[A-Za-z0-9]{14}\\.)", DOTTED, 60], // Airtable
  ["(?:SK|AC)", HEX, 32], // Twilio
  ["hv[bsr]\\.", WORD, 40], // Vault
  ["s\\.(?=[A-Za-z]{0,24}\\d)", ALNUM, 24],
  ["AQVN", WORD, 35], // Yandex
  ["tfp_", DOTTED, 40], // Typeform
  ["NR(?:JS|II|AK|AL)-", WORD, 15], // New Relic
  ["AIza", WORD, 30], // Google
  ["ya29\\.", WORD, 20],
  ["1//0", WORD, 30],
];

/** Tokens that a prefix does not tell, whole. */
const SHAPES: readonly string[] = [
  "(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\\.[A-Za-z0-9]{4,6}\\.acc[_-][\\w.+/=-]{30,200}", // Authress
  "[\\w~.]{3}\\dQ~[\\w~.-]{31,34}", // Azure AD
  "\\d{15,16}(?:\\||%7[Cc]|%)[\\w-]{27,40}", // Facebook
  "[A-Za-z0-9]{14}\\.atlasv1\\.[\\w=-]{40,90}", // Terraform
  "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk", // MaxMind
  "t1\\.[\\w-]{1,400}={0,2}\\.[\\w-]{86}={0,2}", // Yandex
  "\\d{5,16}:A[\\w-]{34}", // Telegram
  "ey[A-Za-z0-9_-]{15,1024}\\.ey[\\w-]{10,8192}\\.[\\w-]{0,2048}", // JWT
  "ey[JIA][A-Za-z0-9_-]{15,1024}\\.[\\w-]{0,2048}\\.[\\w.-]{10,8192}", // JWE
  "hooks\\.slack\\.com/(?:services|workflows|triggers)/[\\w+/-]{10,100}",
  "[a-z0-9.-]{1,80}\\.webhook\\.office\\.com/webhookb2/[\\w@/.-]{20,300}",
  "discord(?:app)?\\.com/api/webhooks/\\d{5,30}/[\\w-]{20,120}",
];

const TOKENS = new RegExp(
  `(?<![A-Za-z0-9])(?:${
    [...PREFIXES.map(([prefix, char, least]) => `${prefix}${char}{${least},${MOST}}`), ...SHAPES].join("|")
  })`,
  "g",
);

/** Tokens of known services. */
export function findTokens(text: string): Span[] {
  return Array.from(text.matchAll(TOKENS), ({ index, 0: { length } }) => ({
    start: index,
    end: index + length,
  }));
}
