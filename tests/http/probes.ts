/** Bytes that some server may take for a request: pieces of a request, each in many spellings. */
import { MessageFault } from "../../lib/network/fault.ts";
import { ClientSpoke, RelayWatch } from "../../lib/network/guest/tunnel.ts";
import { Random } from "../helper/random.ts";

const TAIL = "Host: a.example\r\nContent-Length: 0\r\n\r\n";

/** In front of a request. */
const FRONTS = [
  "",
  " ",
  "  ",
  "\t",
  "\v",
  "\f",
  "\r",
  "\n",
  "\r\n",
  "\n\n",
  "\r\n\r\n",
  "\0",
  "\r\n ",
  " \r\n",
  "\xef\xbb\xbf",
  "\xff\xfe",
  "\xa0",
  "\x85",
  "\x1f",
  "\x1c",
  "\x7f",
  ".",
  "\x80",
  "\x16",
  "\x16\x03",
  "\r\r\n",
  "x\r\n",
  "x\n",
  "\0\r\n",
  "SSH-2.0-x\r\n",
  "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
  "PROXY UNKNOWN\r\n",
  "\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
  "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\0\x01\0\x02",
  "\n".repeat(9),
  "\r\n".repeat(20),
  "\r\n".repeat(200),
  " ".repeat(300),
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];
const METHODS = [
  "GET",
  "get",
  "Get",
  "POST",
  "HEAD",
  "PUT",
  "OPTIONS",
  "TRACE",
  "CONNECT",
  "DELETE",
  "PATCH",
  "FOO",
  "foo",
  "X-Y",
  "X_Y",
  "M-SEARCH",
  "G\0ET",
  "GET\0",
  "\xefGET",
  "0032git-upload-pack",
  "G.T",
  "G/T",
  "GE T",
  '"GET"',
  "(GET)",
  "{}",
  "@",
  "1",
  "A".repeat(33),
  "A".repeat(300),
  "GET:",
  "USER",
  "EHLO",
  "PROPFIND",
  "get\x80",
  "GET\x7f",
  "G\x01T",
  "",
];
const SEPARATORS = [
  " ",
  "  ",
  "\t",
  " \t",
  "\v",
  "\f",
  "\r",
  "\0",
  "\x1c",
  "\x1d",
  "\x1e",
  "\x1f",
  "\x85",
  "\xa0",
  "",
  "   ".repeat(50),
  " \v",
  "\r ",
  "\r\n",
  "\n",
  "\n ",
  "\r\n ",
  "\x08",
  "\x01",
  "+",
  ",",
];
const TARGETS = [
  "/admin",
  "//admin",
  "/x",
  "/admin?x",
  "http://a.example/admin",
  "HTTP://A.EXAMPLE/admin",
  "https://a.example/admin",
  "ws://a.example/admin",
  "a.example:80",
  "*",
  "admin",
  "key",
  "x",
  "?x",
  "\\admin",
  "/ad min",
  "/admin\0",
  "/admin\0host=x\0",
  "\0/admin",
  "/admin#x",
  "#/admin",
  "/\xe9",
  "/%00",
  "/admin\x7f",
  "/admin\v",
  "/ad\tmin",
  '"/admin"',
  "<>",
  "/" + "a".repeat(9000),
  "/" + "a".repeat(70000),
  "./admin",
  "../admin",
  "",
  "://admin",
  "//",
  "file:///admin",
  "ftp://x/admin",
  "/admin\r",
  "\x80/admin",
  "/admin HTTP/1.1 x",
  "%2fadmin",
  ";/admin",
  "rtsp://a.example/admin",
  "sip:a@b",
  "mailto:x",
];
const VERSIONS = [
  "HTTP/1.1",
  "HTTP/1.0",
  "http/1.1",
  "Http/1.1",
  "HTTP/0.9",
  "HTTP/1.2",
  "HTTP/2.0",
  "HTTP/2",
  "HTTP/1",
  "HTTP/1.",
  "HTTP/1.10",
  "HTTP/01.1",
  "HTTP/1.1 ",
  "HTTP/1.1\t",
  "HTTP/1.1 x",
  "HTTP/1.1\0",
  "HTTP/ 1.1",
  "HTTP /1.1",
  "HTTP",
  "HTTP/",
  "HTTP/x",
  "HTTP/9.9",
  "RTSP/1.0",
  "SIP/2.0",
  "ICE/1.0",
  "FOO",
  "FOO/1.1",
  "HTTPS/1.1",
  "\xefHTTP/1.1",
  "HTTP/-1.1",
  "HTTP/1,1",
  "HTTP\\1.1",
  "X HTTP/1.1",
  "\0HTTP/1.1",
  "HTTP/1.1\r",
  "",
  "HTTP//1.1",
  "HTTP/1.1/",
  "1.1",
];
const ENDS = [
  "\r\n",
  "\n",
  "\r",
  "\r\r\n",
  "\0\r\n",
  "\n\r",
  "\v",
  "\f",
  "\x85",
  "\x1e",
  "",
  "\0",
  " \r\n",
  "\0\n",
];
const REST = [
  TAIL,
  TAIL.replaceAll("\r\n", "\n"),
  "\r\n",
  "",
  "\n",
  "\r\n\r\n",
  "\r",
  "Host: a.example\r",
  TAIL.replaceAll("\r\n", "\r"),
  "\0",
];

interface Parts {
  front: string;
  method: string;
  one: string;
  target: string;
  two: string;
  version: string;
  end: string;
  rest: string;
}

const PLAIN: Parts = {
  front: "",
  method: "GET",
  one: " ",
  target: "/admin",
  two: " ",
  version: "HTTP/1.1",
  end: "\r\n",
  rest: TAIL,
};
const CHOICES: Record<keyof Parts, readonly string[]> = {
  front: FRONTS,
  method: METHODS,
  one: SEPARATORS,
  target: TARGETS,
  two: SEPARATORS,
  version: VERSIONS,
  end: ENDS,
  rest: REST,
};

/** Every spelling of each piece alone, and `count` mixtures of several. */
export function probes(count: number, seed: number): string[] {
  const made = new Set<string>();
  const add = (change: Partial<Parts>) => made.add(Object.values({ ...PLAIN, ...change }).join(""));
  const names = Object.keys(CHOICES) as (keyof Parts)[];
  for (const name of names) for (const value of CHOICES[name]) add({ [name]: value });
  // Without a version every one again.
  const old = { two: "", version: "", rest: "" };
  for (const name of names) for (const value of CHOICES[name]) add({ ...old, [name]: value });
  const random = new Random(seed);
  while (made.size < count) {
    const change: Partial<Parts> = random.below(3) === 0 ? { ...old } : {};
    for (let changes = 1 + random.below(3); changes > 0; changes--) {
      const name = random.pick(names);
      change[name] = random.pick(CHOICES[name]);
    }
    let text = Object.values({ ...PLAIN, ...change }).join("");
    if (random.below(6) === 0) {
      const at = random.below(Math.min(text.length, 40) + 1);
      text = text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + random.below(2));
    }
    made.add(text);
  }
  return [...made];
}

export const encode = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

/**
 * Lets a client's bytes through a relay, and then the end of them.
 *
 * @param sizes of the pieces in which they come; the rest comes in one
 * @returns true when all of them passed
 */
export function passes(bytes: Uint8Array, sizes: readonly number[] = []): boolean {
  const watch = new RelayWatch({ hosts: ["a.example"] });
  let passed = 0;
  let received = 0;
  try {
    for (const size of [...sizes, bytes.length]) {
      received = Math.min(received + size, bytes.length);
      passed += watch.client(bytes.subarray(passed, received), false);
    }
    passed += watch.client(bytes.subarray(passed), true);
  } catch (error) {
    if (error instanceof MessageFault || error instanceof ClientSpoke) return false;
    throw error;
  }
  return passed === bytes.length;
}

/** Sizes of pieces for {@linkcode passes}. */
export function cuts(random: Random): number[] {
  return Array.from({ length: random.below(12) }, () => 1 + random.below(12));
}
