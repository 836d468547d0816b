/** Who and where: user names in paths, passwords of URLs, e-mail addresses, hosts. */
import { REDACTED, type Span } from "./span.ts";

/** `/home/`, `/Users/`, `C:\Users\`, also escaped; a name may have further words in upper case. */
const HOME =
  /(?:(?:(?<![\w.\]-])|(?<=%2[Ff]))(?:\/(?:var|export|usr|srv|net|mnt|media|data)(?:\/[\w.-]{1,32})?)?(?:\/|%2[Ff]|\\\/)(?:home|Users)(?:\/|%2[Ff]|\\\/)|[A-Za-z]:(?:\\{1,4}|\/)(?:Users|Documents and Settings)(?:\\{1,4}|\/))([^/\\\s"'`:;,<>|?*%()[\]{}]{1,64}(?: [A-Z][\w.-]{0,30}){0,3}(?=[/\\])|[^/\\\s"'`:;,<>|?*%()[\]{}]{1,64})/g;
/** User and password of a URL; a password may have a slash that was not encoded. */
const USERINFO =
  /(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{1,20}:(?:\\?\/){2}((?:[^\s/?#"'`<>@:]{0,128}:[^\s"'`<>]{0,256}|[^\s/?#"'`<>]{1,256})(?=@))/g;
const EMAIL = /(?<![\w.+%-])[\w.+%-]{1,64}(?:@|%40)(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w-])/g;
/** Without one of these no user and no address is in a text. */
const AT = /@|%40/;
const URL_HOST = /(?<=:(?:\\?\/){2}(?:\[redacted\]@)?)(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z0-9-]{1,63}/g;
const IPV4 = /(?<![\w.])(?!127\.|0\.0\.0\.0)(?:\d{1,3}\.){3}\d{1,3}(?![\w.])/g;

/** User names of home folders, passwords of URLs, e-mail addresses. */
export function findPlaces(text: string): Span[] {
  return AT.test(text) ? [...findUserinfo(text), ...findUsers(text)] : findUsers(text);
}

function findUserinfo(text: string): Span[] {
  const users = Array.from(text.matchAll(USERINFO), ({ index, 0: whole, 1: info }) => ({
    start: index + whole.length - info.length,
    end: index + whole.length,
  }));
  const inUrls = new Set(users.map(({ end }) => end));
  return [
    ...users.filter(({ start, end }) => text.slice(start, end) !== REDACTED),
    // What looks like an address in a URL is its user and host.
    ...findAll(EMAIL, text, "[email]").filter(({ start, end }) =>
      !inUrls.has(start + text.slice(start, end).search(/@|%40/))
    ),
  ];
}

/** User names behind folders of homes. */
function findUsers(text: string): Span[] {
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
