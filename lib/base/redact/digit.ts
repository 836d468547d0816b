/** Secrets of digits: one-time codes beside words that say so, and numbers of payment cards. */
import type { Span } from "./span.ts";

const DIGITS = "\\d{3}[ -]\\d{3}|\\d{4,8}";
const END = "(?![\\w-]|[.:]\\d)";
const SPACE = "[ \\t]{0,3}";
const KINDS =
  "one[-_ ]?time|verification|authenticat(?:ion|or)|security|confirmation|log-?in|sign-?in|access|sms|2fa|mfa|t?otp|two-factor";
/** Of an exit, an error or a place. */
const OTHER_CODES =
  "exit|error|status|return|zip|postal|country|area|product|source|response|result|event|reason";
/** In one expression, since each takes a walk through the text. */
const SECRETS = new RegExp(
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
/** Issuers, by their first digits and the number of all. 19 digits in a row that begin with 4 are more often an id. */
const ISSUERS = [
  /^4\d{15}$/,
  /^(?:5[1-5]|22[3-9]|222[1-9]|2[3-6]|27[01]|2720)/,
  /^3[47]\d{13}$/,
  /^(?:6011|64[4-9]|65)\d+$/,
  /^35(?:2[89]|[3-8])/,
  /^3(?:0[0-5]|[68])\d+$/,
  /^62\d+$/,
];
const LENGTHS = [[16], [16], [15], [16], [16], [14], [16, 19]];
/** Lengths of Visa numbers that occur in groups only. */
const GROUPED_VISA = /^4\d{12}(?:\d{6})?$/;

/** Without these there is nothing to find: most lines have neither. */
const DIGITS_OR_LINK = /\d{4}|\d{3}[ -]\d{3}|otpauth/i;

/** One-time codes, secrets of authenticators, numbers of cards. */
export function findDigits(text: string): Span[] {
  if (!DIGITS_OR_LINK.test(text)) return [];
  const codes = Array.from(text.matchAll(SECRETS), ({ index, 0: whole, groups }) => {
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
  const isKnown = ISSUERS.some((first, at) => LENGTHS[at].includes(number.length) && first.test(number)) ||
    number.length < text.length && GROUPED_VISA.test(number);
  return isKnown && hasCheckDigit(number);
}

/** Tests the check digit of Luhn. */
function hasCheckDigit(number: string): boolean {
  const sum = Array.from(number).reverse().reduce((sum, digit, at) => {
    const value = Number(digit) * (at % 2 + 1);
    return sum + (value > 9 ? value - 9 : value);
  }, 0);
  return sum % 10 === 0;
}
