/** Secrets and personal data recognized by their shape: people and places, codes and cards, private keys. */
import { REDACTED, type Span } from "./span.ts";

// Who and where: user names in paths, passwords of URLs, e-mail addresses, hosts.

/** `/home/`, `/Users/`, `C:\Users\`, also escaped; a name may have further words in upper case. */
const HOME =
  /(?:(?:(?<![\w.\]-])|(?<=%2[Ff]))(?:\/(?:var|export|usr|srv|net|mnt|media|data)(?:\/[\w.-]{1,32})?)?(?:\/|%2[Ff]|\\\/)(?:home|Users)(?:\/|%2[Ff]|\\\/)|[A-Za-z]:(?:\\{1,4}|\/)(?:Users|Documents and Settings)(?:\\{1,4}|\/))([^/\\\s"'`:;,<>|?*%()[\]{}]{1,64}(?: [A-Z][\w.-]{0,30}){0,3}(?=[/\\])|[^/\\\s"'`:;,<>|?*%()[\]{}]{1,64})/g;
/** User and password of a URL; a password may have a slash that was not encoded. */
const USERINFO =
  /(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}:(?:\\?\/){2}((?:[^\s/?#"'`<>@:]{0,128}:[^\s"'`<>]{0,256}|[^\s/?#"'`<>]{1,256})(?=@))/g;
/** User and password before a host without a scheme, as in `psql shop:pw@db/x`; both, and the host. */
const BARE_USERINFO =
  /(?<![\w.+%:/@-])(([A-Za-z_][\w.+%-]{0,63}):[^\s"'`<>,;\\/()[\]{}]{1,128})@([A-Za-z_][\w-]{0,62}(?:\.[\w-]{1,63}){0,8}|\d{1,3}(?:\.\d{1,3}){3}|\[[\da-fA-F:.]{2,45}\])(?![\w@-])/g;
/** Words before a colon that are no users: `mailto:ann@example.com`, `npm:react@19`. */
const NO_USER = /^(?:mailto|sips?|xmpp|acct|e-?mail|to|cc|bcc|from|npm|jsr|node|pkg|pypi|docker)$/i;
/** Kinds of digests behind an image's name and tag, as in `app:1@sha256:…`: no hosts. */
const NO_HOST = /^(?:sha\d{1,3}|blake[23]\w{0,4}|md5)$/i;
const EMAIL = /(?<![\w.+%-])[\w.+%-]{1,64}(?:@|%40)(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])/g;
/** In every URL with a user and every e-mail address. */
const AT = /@|%40/;
const URL_HOST = /(?<=:(?:\\?\/){2}(?:\[redacted\]@)?)(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z0-9-]{1,63}/g;
const IPV4 = /(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])/g;

/** User names of home folders, passwords of URLs, e-mail addresses. */
export function findUsersAndEmails(text: string): Span[] {
  return AT.test(text) ? [...findUserinfo(text), ...findHomeUsers(text)] : findHomeUsers(text);
}

function findUserinfo(text: string): Span[] {
  const users = Array.from(text.matchAll(USERINFO), ({ index, 0: whole, 1: info }) => ({
    start: index + whole.length - info.length,
    end: index + whole.length,
  }));
  const bare = findBareUserinfo(text);
  const inUrls = new Set([...users, ...bare].map(({ end }) => end));
  return [
    ...users.filter(({ start, end }) => text.slice(start, end) !== REDACTED),
    ...bare,
    // At the end of a URL's user, text that looks like an address is the user and the host.
    ...findAll(EMAIL, text, "[email]").filter(({ start, end }) =>
      !inUrls.has(start + text.slice(start, end).search(/@|%40/))
    ),
  ];
}

function findBareUserinfo(text: string): Span[] {
  return Array.from(text.matchAll(BARE_USERINFO)).flatMap(({ index, 1: info, 2: user, 3: host }) =>
    NO_USER.test(user) || NO_HOST.test(host) ? [] : [{ start: index, end: index + info.length }]
  );
}

/** User names in paths of home folders. */
function findHomeUsers(text: string): Span[] {
  return Array.from(text.matchAll(HOME), ({ index, 0: whole, 1: name }) => ({
    start: index + whole.length - name.length,
    end: index + whole.length,
    mark: "[user]",
  }));
}

/** Hosts of URLs, and IPv4 addresses that are not this machine's own. */
export function findHosts(text: string): Span[] {
  return [URL_HOST, IPV4].flatMap((pattern) => findAll(pattern, text, "[host]"));
}

/** All matches of a pattern. */
export function findAll(pattern: RegExp, text: string, mark: string): Span[] {
  return Array.from(text.matchAll(pattern), ({ index, 0: { length } }) => ({
    start: index,
    end: index + length,
    mark,
  }));
}

// Secrets of digits: one-time codes beside words that name them, and numbers of payment cards.

const DIGITS = "\\d{3}[ -]\\d{3}|\\d{4,8}";
const END = "(?![\\w-]|[.:]\\d)";
const SPACE = "[ \\t]{0,3}";
const KINDS =
  "one[-_ ]?time|verification|authenticat(?:ion|or)|security|confirmation|log-?in|sign-?in|access|sms|2fa|mfa|t?otp|two-factor";
/** Words before "code" that make it no secret: exit codes, error codes, postal codes. */
const OTHER_CODES =
  "exit|error|status|return|zip|postal|country|area|product|source|response|result|event|reason";
/** One expression, since each takes a pass over the text. */
const CODES = new RegExp(
  [
    // `OTP 123456`, `verification code: 123 456`, `otp=123456`
    `(?<![A-Za-z0-9])(?:(?:${KINDS})[-_ ]?(?:code|password|passcode|pin)|t?otp|passcode)["']?(?:\\s{1,2}(?:is|was|ist|est|es))?${SPACE}[:=#]?${SPACE}["'(]?(?<named>${DIGITS})${END}`,
    // `PIN: 1234`; a pin of a chip has fewer digits
    `(?<![A-Za-z0-9])pin["']?(?:\\s{1,2}is\\s|${SPACE}[:=])${SPACE}["']?(?<pin>${DIGITS})${END}`,
    // `the code is 123 456`
    `(?<![A-Za-z0-9]|(?:${OTHER_CODES})[-_ ]?)code["']?\\s{1,2}(?:is|was|ist|est|es)[:\\s]{1,3}["']?(?<code>\\d{3}[ -]\\d{3}|\\d{6})${END}`,
    // `123456 is your verification code`
    `(?<![\\w.])(?<first>${DIGITS})(?= is (?:your|the) [\\w ]{0,40}(?:code|otp|pin|password)(?!\\w))`,
    // an authenticator's QR code
    "(?<link>otpauth(?:-migration)?://[^\\s\"'`<>]{1,2000})",
  ].join("|"),
  "gi",
);

/** 13 to 19 digits with an issuer's prefix: in groups, not among other groups, or in a row. */
const CARD =
  /(?<![\w.+-]|[0-9A-F]{4}\s)(?:[2-6]\d{3}([ -])\d{4}\1\d{4}\1\d{1,4}(?:\1\d{3})?|3\d{3}([ -])\d{6}\2\d{4,5}|[2-6]\d{13,18})(?![\w-]|\.\d|\s[0-9A-F]{4})/g;
/**
 * Issuers: first digits and lengths of their numbers. A row of 19 digits that begins with 4 is more often an
 * id than a card.
 */
const ISSUERS: readonly { first: RegExp; lengths: readonly number[] }[] = [
  { first: /^4/, lengths: [16] }, // Visa
  { first: /^(?:5[1-5]|22[3-9]|222[1-9]|2[3-6]|27[01]|2720)/, lengths: [16] }, // Mastercard
  { first: /^3[47]/, lengths: [15] }, // American Express
  { first: /^(?:6011|64[4-9]|65)/, lengths: [16] }, // Discover
  { first: /^35(?:2[89]|[3-8])/, lengths: [16] }, // JCB
  { first: /^3(?:0[0-5]|[68])/, lengths: [14] }, // Diners Club
  { first: /^62/, lengths: [16, 19] }, // UnionPay
];
/** Lengths of Visa numbers that occur in groups only. */
const GROUPED_VISA = /^4\d{12}(?:\d{6})?$/;

/** In every secret of digits; most lines of a log have neither, and are skipped. */
const DIGITS_OR_LINK = /\d{4}|\d{3}[ -]\d{3}|otpauth/i;

/** One-time codes, secrets of authenticators, numbers of cards. */
export function findDigits(text: string): Span[] {
  if (!DIGITS_OR_LINK.test(text)) return [];
  const codes = Array.from(text.matchAll(CODES), ({ index, 0: whole, groups }) => {
    const secret = Object.values(groups!).find((found) => found !== undefined)!;
    const start = index + whole.length - secret.length;
    return { start, end: start + secret.length };
  });
  const cards = Array.from(text.matchAll(CARD)).filter(({ 0: number }) => isCard(number))
    .map(({ index, 0: { length } }) => ({ start: index, end: index + length }));
  return [...codes, ...cards];
}

function isCard(text: string): boolean {
  const number = text.replaceAll(/[ -]/g, "");
  const isKnown =
    ISSUERS.some(({ first, lengths }) => lengths.includes(number.length) && first.test(number)) ||
    number.length < text.length && GROUPED_VISA.test(number);
  return isKnown && hasCheckDigit(number);
}

/** Tests the check digit of a card's number, by Luhn's algorithm. */
function hasCheckDigit(number: string): boolean {
  const sum = Array.from(number).reverse().reduce((sum, digit, at) => {
    const value = Number(digit) * (at % 2 + 1);
    return sum + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}

// Private keys over several lines: PEM, OpenSSH, PGP and PuTTY.

/** Longest private key in characters: RSA of 16,384 bits has 12,700. */
const KEY_MAX = 16 * 1024;

const BEGIN = /-----BEGIN [A-Z0-9 _-]{0,60}PRIVATE KEY[A-Z ]{0,10}-----|PuTTY-User-Key-File-\d/g;
const KEY_END = /-----END [A-Z0-9 _-]{0,60}PRIVATE KEY[A-Z ]{0,10}-----|Private-MAC:\s{0,4}[0-9a-f]{1,128}/g;
/** Breaks between lines of a key, also escaped in JSON. */
const BREAK = /\\[rn]|\s/;
const BASE64 = /^[A-Za-z0-9+/=]{0,80}$/;

/**
 * Keys from their first line to their last. Without an end the longest possible key is withheld. Base64
 * before an end without a beginning is withheld too: the tail of a log may begin inside a key.
 */
export function findPrivateKeys(text: string): Span[] {
  const spans: Span[] = [];
  let done = 0;
  BEGIN.lastIndex = 0;
  for (let begin = BEGIN.exec(text); begin; begin = BEGIN.exec(text)) {
    const piece = text.slice(begin.index, begin.index + KEY_MAX);
    KEY_END.lastIndex = 0;
    const end = KEY_END.exec(piece);
    done = begin.index + (end ? end.index + end[0].length : piece.length);
    spans.push({ start: begin.index, end: done });
    BEGIN.lastIndex = done;
  }
  return [...spans, ...findEnds(text)];
}

function findEnds(text: string): Span[] {
  let from = 0;
  return Array.from(text.matchAll(KEY_END)).flatMap(({ index, 0: { length } }) => {
    const key = base64AtEnd(text.slice(Math.max(from, index - KEY_MAX), index));
    from = index + length;
    return key > 0 ? [{ start: index - key, end: from }] : [];
  });
}

/** Characters of the lines of base64 at the end of a text. */
function base64AtEnd(text: string): number {
  const lines = text.split(BREAK);
  const first = lines.findLastIndex((line) => !BASE64.test(line));
  const key = lines.slice(first + 1).find((line) => line !== "");
  return key === undefined ? 0 : text.length - text.indexOf(key, lines.slice(0, first + 1).join(" ").length);
}
