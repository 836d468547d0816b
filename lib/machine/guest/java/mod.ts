/**
 * Java's stores of trusted certificates, `cacerts`: where they are, and a store with one more.
 * Guest programs bundle this folder.
 */

/** Stores of distributions, which their JDKs link to. */
const SHARED = [
  "/etc/ssl/certs/java/cacerts",
  "/etc/pki/ca-trust/extracted/java/cacerts",
  "/etc/pki/java/cacerts",
];
/**
 * Folders with a JDK each, in Debian, Fedora and Arch, in the official images, and in installations by hand.
 */
const HOMES = ["/usr/lib/jvm", "/usr/java", "/opt/java", "/opt", "/usr/local"];
/** Of a JDK, and of one before Java 9. */
const STORES = ["lib/security/cacerts", "jre/lib/security/cacerts"];
/** Most JDKs of a folder that are searched. */
const HOMES_MAX = 64;
/** Longest store that is read, in `bytes`: usual ones have 200 KB. */
export const STORE_MAX = 8 * 1024 * 1024;

/** The certificate's name in a store. */
const ALIAS = "sbx";
/** Password of every store that is shipped; a store with another one belongs to its user. */
const PASSWORD = "changeit";

/**
 * Paths at which a root file system may have stores. They are not resolved.
 *
 * @param list names in a folder; none where it is missing
 * @param home value of `JAVA_HOME`
 */
export function storePaths(list: (folder: string) => string[], home?: string): string[] {
  const homes = HOMES.flatMap((folder) =>
    list(folder).slice(0, HOMES_MAX).map((name) => `${folder}/${name}`)
  );
  if (home?.startsWith("/")) homes.push(home.replace(/\/+$/, ""));
  return [...SHARED, ...homes.flatMap((each) => STORES.map((store) => `${each}/${store}`))];
}

/**
 * A store that trusts one more certificate, in the format that it has: JKS, or PKCS#12 without a password, as
 * JDKs have had since Java 18. `undefined` for a store that has the certificate, and for one that is
 * protected by a password of its own.
 */
export async function withTrusted(store: Uint8Array, pem: string): Promise<Uint8Array | undefined> {
  const certificate = derOf(pem);
  if (certificate === undefined || contains(store, certificate)) return undefined;
  return await inJks(store, certificate) ?? inPkcs12(store, certificate);
}

/** A new JKS store that trusts the certificates of a bundle, for Java's `javax.net.ssl.trustStore`. */
export async function storeOf(bundle: string): Promise<Uint8Array> {
  const pems = bundle.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? [];
  const entries = pems.map((pem, at) => jksEntry(`${ALIAS}-${at}`, derOf(pem)!));
  const content = joined(JKS, big(JKS_VERSION, 4), big(entries.length, 4), ...entries);
  return joined(content, await jksDigest(content));
}

function derOf(pem: string): Uint8Array | undefined {
  const [, base64] = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/.exec(pem) ??
    [];
  return base64 === undefined ? undefined : Uint8Array.fromBase64(base64);
}

function contains(bytes: Uint8Array, part: Uint8Array): boolean {
  for (let at = bytes.indexOf(part[0]); at >= 0; at = bytes.indexOf(part[0], at + 1)) {
    if (part.every((byte, index) => bytes[at + index] === byte)) return true;
  }
  return false;
}

function joined(...parts: (Uint8Array | number[])[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const utf8 = (text: string) => new TextEncoder().encode(text);

/** A number of `count` bytes. */
function big(value: number, count: number): number[] {
  return Array.from(
    { length: count },
    (_, index) => Math.floor(value / 2 ** (8 * (count - 1 - index))) % 256,
  );
}

const JKS = [0xfe, 0xed, 0xfe, 0xed];
/** Magic number, version and number of entries; and the digest at the end. */
const HEAD_SIZE = 12, DIGEST_SIZE = 20;
const JKS_VERSION = 2;

/** Puts an entry behind the others: of two with one name, Java takes the later one. */
async function inJks(store: Uint8Array, certificate: Uint8Array): Promise<Uint8Array | undefined> {
  if (store.length < HEAD_SIZE + DIGEST_SIZE || JKS.some((byte, index) => store[index] !== byte)) {
    return undefined;
  }
  const end = store.length - DIGEST_SIZE;
  const digest = await jksDigest(store.subarray(0, end));
  if (digest.some((byte, index) => store[end + index] !== byte)) return undefined;
  const view = new DataView(store.buffer, store.byteOffset);
  const [version, count] = [view.getUint32(4), view.getUint32(8)];
  if (version !== JKS_VERSION) return undefined;
  const content = joined(
    store.subarray(0, 8),
    big(count + 1, 4),
    store.subarray(HEAD_SIZE, end),
    jksEntry(ALIAS, certificate),
  );
  return joined(content, await jksDigest(content));
}

/** A trusted certificate, its name, its time, its type and its bytes. */
function jksEntry(alias: string, certificate: Uint8Array): Uint8Array {
  const text = (value: string) => joined(big(value.length, 2), utf8(value));
  return joined(
    big(2, 4),
    text(alias),
    big(Date.now(), 8),
    text("X.509"),
    big(certificate.length, 4),
    certificate,
  );
}

/** The digest of JKS: of the password in UTF-16, of a text that its inventor chose, and of the store. */
async function jksDigest(content: Uint8Array): Promise<Uint8Array> {
  const password = [...PASSWORD].flatMap((letter) => big(letter.charCodeAt(0), 2));
  const bytes = joined(password, utf8("Mighty Aphrodite"), content);
  return new Uint8Array(await crypto.subtle.digest("SHA-1", bytes.buffer as ArrayBuffer));
}

const [INTEGER, OCTETS, OID, SEQUENCE, SET, INNER, BMP] = [0x02, 0x04, 0x06, 0x30, 0x31, 0xa0, 0x1e];
const oid = (...bytes: number[]) => der(OID, bytes);
const PKCS7_DATA = oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01);
const CERTIFICATE_BAG = oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03);
const X509 = oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01);
const FRIENDLY_NAME = oid(0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x14);
/** Java's own attribute: the certificate is trusted for a purpose. */
const TRUSTED_KEY_USAGE = oid(0x60, 0x86, 0x48, 0x01, 0x86, 0xf9, 0x66, 0xad, 0xca, 0x7b, 0x01, 0x01);
const ANY_USAGE = oid(0x55, 0x1d, 0x25, 0x00);

/** Puts an entry behind the others of the first list in a PKCS#12 (RFC 7292) that has no password. */
function inPkcs12(store: Uint8Array, certificate: Uint8Array): Uint8Array | undefined {
  try {
    const [version, outer, ...mac] = children(content(store, SEQUENCE));
    if (version[0] !== INTEGER || mac.length > 0) return undefined;
    const [first, ...others] = children(content(dataOf(outer), SEQUENCE));
    const bags = children(content(dataOf(first), SEQUENCE));
    const list = der(SEQUENCE, ...bags, bagOf(certificate));
    const safe = der(SEQUENCE, dataWith(list), ...others);
    return der(SEQUENCE, version, dataWith(safe));
  } catch {
    return undefined;
  }
}

function bagOf(certificate: Uint8Array): Uint8Array {
  const name = [...ALIAS].flatMap((letter) => big(letter.charCodeAt(0), 2));
  return der(
    SEQUENCE,
    CERTIFICATE_BAG,
    der(INNER, der(SEQUENCE, X509, der(INNER, der(OCTETS, certificate)))),
    der(
      SET,
      der(SEQUENCE, FRIENDLY_NAME, der(SET, der(BMP, name))),
      der(SEQUENCE, TRUSTED_KEY_USAGE, der(SET, ANY_USAGE)),
    ),
  );
}

/** A `ContentInfo` with data that is not encrypted. */
function dataWith(bytes: Uint8Array): Uint8Array {
  return der(SEQUENCE, PKCS7_DATA, der(INNER, der(OCTETS, bytes)));
}

/** @throws {Error} for encrypted data, among others */
function dataOf(info: Uint8Array): Uint8Array {
  const [type, inner] = children(content(info, SEQUENCE));
  if (type.join() !== PKCS7_DATA.join()) throw new Error("not data");
  return content(content(inner, INNER), OCTETS);
}

function der(tag: number, ...parts: (Uint8Array | number[])[]): Uint8Array {
  const body = joined(...parts);
  const { length } = body;
  const size = length < 0x80
    ? [length]
    : length < 0x100
    ? [0x81, length]
    : length < 0x10000
    ? [0x82, ...big(length, 2)]
    : length < 0x1000000
    ? [0x83, ...big(length, 3)]
    : [0x84, ...big(length, 4)];
  return joined([tag], size, body);
}

/** The elements of a body. @throws {Error} unless they fill it */
function children(body: Uint8Array): Uint8Array[] {
  const elements: Uint8Array[] = [];
  for (let at = 0; at < body.length;) {
    const { end } = extent(body, at);
    elements.push(body.subarray(at, end));
    at = end;
  }
  return elements;
}

/** The body of an element. @throws {Error} for another tag, and for bytes behind the element */
function content(element: Uint8Array, tag: number): Uint8Array {
  const { start, end } = extent(element, 0);
  if (element[0] !== tag || end !== element.length) throw new Error("not the element");
  return element.subarray(start, end);
}

function extent(bytes: Uint8Array, at: number): { start: number; end: number } {
  const first = bytes[at + 1];
  const count = first < 0x80 ? 0 : first - 0x80;
  const start = at + 2 + count;
  const length = count === 0
    ? first
    : bytes.subarray(at + 2, start).reduce((sum, byte) => sum * 256 + byte, 0);
  // An indefinite length has no count.
  const end = start + length;
  if (first === 0x80 || count > 4 || !(end <= bytes.length)) throw new Error("not an element");
  return { start, end };
}
