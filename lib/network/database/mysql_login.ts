/** Logins at MySQL and MariaDB: the first packets of both sides, and the host's answers to the server. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import { LOGIN_MESSAGES_MAX, SERVER_LOGIN_MAX } from "./limit.ts";
import {
  CAPABILITY,
  counted,
  FOLLOWED,
  FOLLOWED_MARIADB,
  packet,
  PacketReader,
  readError,
  type ServerError,
  takePacket,
  uint,
} from "./mysql_packet.ts";

const NATIVE = "mysql_native_password";
const CACHING = "caching_sha2_password";
const ED25519 = "client_ed25519";
/** Length of the random bytes of a server. */
const NONCE = 20;
/** A greeting's version of the protocol. */
const VERSION = 10;

/** The first packet of a server. */
export interface Greeting {
  /** version of the server, as bytes */
  version: Uint8Array;
  thread: number;
  nonce: Uint8Array;
  capabilities: number;
  /** of MariaDB */
  extended: number;
  collation: number;
  status: number;
  plugin: string;
}

/** @throws {SbxError} the server's refusal, or a server that is too old; {MessageFault} */
export function readGreeting(body: Uint8Array): Greeting {
  if (body[0] === 0xff) throw new ServerRefusal(readError(body));
  if (body[0] !== VERSION) {
    throw unsafe("speaks a protocol that sbx does not know", "use MySQL 5.7, MariaDB 10.2 or later");
  }
  const reader = new PacketReader(body, 1);
  const end = body.indexOf(0, 1);
  if (end < 0) throw new MessageFault("a greeting without a version");
  const version = reader.bytes(end - 1);
  reader.at++;
  const thread = reader.uint(4);
  const first = reader.bytes(8);
  reader.at++;
  const lower = reader.uint(2);
  const collation = reader.uint(1);
  const status = reader.uint(2);
  const capabilities = lower | reader.uint(2) << 16;
  const length = reader.uint(1);
  const filler = reader.bytes(10);
  const needed = CAPABILITY.PROTOCOL_41 | CAPABILITY.SECURE_CONNECTION | CAPABILITY.PLUGIN_AUTH;
  if ((capabilities & needed) !== needed) {
    throw unsafe("is too old for a login that is safe", "use MySQL 5.7, MariaDB 10.2 or later");
  }
  const rest = reader.bytes(Math.max(13, length - 8));
  const isMariaDb = (capabilities & CAPABILITY.MYSQL) === 0;
  return {
    version,
    thread,
    nonce: joinBytes([first, rest.subarray(0, NONCE - 8)]),
    capabilities,
    extended: isMariaDb ? new PacketReader(filler, 6).uint(4) : 0,
    collation,
    status,
    plugin: reader.text(),
  };
}

/**
 * The greeting for a guest: the server's, but for what sbx does not follow and for
 * the login, which is the host's.
 */
export function guestGreeting(greeting: Greeting): Uint8Array<ArrayBuffer> {
  const capabilities = greeting.capabilities & FOLLOWED | CAPABILITY.SSL;
  // Random bytes of its own: the guest's answer to the server's would be of use at the server.
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE)).map((byte) => byte % 0x7f + 1);
  return packet(
    0,
    new Uint8Array([VERSION]),
    greeting.version,
    new Uint8Array(1),
    uint(greeting.thread, 4),
    nonce.subarray(0, 8),
    new Uint8Array(1),
    uint(capabilities & 0xffff, 2),
    uint(greeting.collation, 1),
    uint(greeting.status, 2),
    uint(capabilities >>> 16, 2),
    uint(NONCE + 1, 1),
    new Uint8Array(6),
    uint(greeting.extended & FOLLOWED_MARIADB, 4),
    nonce.subarray(8),
    new Uint8Array(1),
    `${greeting.plugin === CACHING ? CACHING : NATIVE}\0`,
  );
}

/** A login as the client wrote it. */
export interface ClientLogin {
  capabilities: number;
  extended: number;
  maxPacket: number;
  collation: number;
  user: string;
  /** its answer to the login, which is of no use */
  answer: Uint8Array;
  database: string;
  plugin: string;
  /** names and values of the client, as bytes */
  attributes: Uint8Array;
}

/** Length of the part of a login that a request for TLS has too. */
export const SSL_REQUEST_LENGTH = 32;

/** @throws {MessageFault} */
export function readClientLogin(body: Uint8Array, greeting: Greeting): ClientLogin {
  const reader = new PacketReader(body);
  const capabilities = reader.uint(4) | 0;
  const maxPacket = reader.uint(4);
  const collation = reader.uint(1);
  const filler = reader.bytes(23);
  const needed = CAPABILITY.PROTOCOL_41 | CAPABILITY.SECURE_CONNECTION;
  if ((capabilities & needed) !== needed) throw new MessageFault("a client that is too old");
  // Clients set bits that nothing has offered.
  const has = (bit: number) => (capabilities & greeting.capabilities & bit) !== 0;
  const isMariaDb = (capabilities & CAPABILITY.MYSQL) === 0;
  const asked = isMariaDb ? new PacketReader(filler, 19).uint(4) : 0;
  const extended = asked & greeting.extended & FOLLOWED_MARIADB;
  const user = reader.text();
  const answer = has(CAPABILITY.PLUGIN_AUTH_LENENC) ? reader.counted() : reader.bytes(reader.uint(1));
  const database = has(CAPABILITY.CONNECT_WITH_DB) && reader.left > 0 ? reader.text() : "";
  const plugin = has(CAPABILITY.PLUGIN_AUTH) && reader.left > 0 ? reader.text() : "";
  const attributes = has(CAPABILITY.CONNECT_ATTRS) && reader.left > 0 ? reader.counted() : new Uint8Array();
  return { capabilities, extended, maxPacket, collation, user, answer, database, plugin, attributes };
}

/** The answer to a client that may log in: its method of a password expects more than the OK. */
export function acceptedLogin({ plugin, answer }: Pick<ClientLogin, "plugin" | "answer">): Uint8Array[] {
  const isEmpty = answer.length === 0 || answer.length === 1 && answer[0] === 0;
  // "fast authentication succeeded"
  return plugin === CACHING && !isEmpty ? [new Uint8Array([1, 3])] : [];
}

/** Methods whose answer the host need not look at. */
export function isKnownMethod(plugin: string): boolean {
  return plugin === "" || plugin === NATIVE || plugin === CACHING;
}

/** Asks a client for the answer of a method that it knows. */
export function switchToNative(sequence: number): Uint8Array<ArrayBuffer> {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE)).map((byte) => byte % 0x7f + 1);
  return packet(sequence, new Uint8Array([0xfe]), `${NATIVE}\0`, nonce, new Uint8Array(1));
}

/** The host's part of a login. */
export interface MysqlAccount {
  user: string;
  password: string;
  /** the connection is encrypted, and the server's certificate verified */
  isSecure: boolean;
}

/** The server's own words of a refusal. */
export class ServerRefusal extends Error {
  constructor(readonly error: ServerError) {
    super(error.text);
  }
}

/** The fixed part of a login, which a request for TLS is made of. */
export function loginHead(client: ClientLogin, capabilities: number): Uint8Array<ArrayBuffer> {
  return joinBytes([
    uint(capabilities >>> 0, 4),
    uint(client.maxPacket, 4),
    uint(client.collation, 1),
    new Uint8Array(19),
    uint(client.extended, 4),
  ]);
}

/** Capabilities of the host's login: the guest's, without TLS of its own. */
export function loginCapabilities(client: ClientLogin, greeting: Greeting, isSecure: boolean): number {
  const agreed = client.capabilities & greeting.capabilities & FOLLOWED;
  const own = CAPABILITY.PLUGIN_AUTH | CAPABILITY.SECURE_CONNECTION | CAPABILITY.PROTOCOL_41;
  const without = agreed & ~CAPABILITY.PLUGIN_AUTH_LENENC & ~CAPABILITY.CONNECT_WITH_DB;
  const database = client.database === "" ? 0 : CAPABILITY.CONNECT_WITH_DB;
  return without | own | database | (isSecure ? CAPABILITY.SSL : 0);
}

/**
 * Logs in.
 *
 * @param sequence of the next packet
 * @returns the body of the server's OK
 * @throws {ServerRefusal}, {SbxError} `upstream.failed`: the server wants the
 * password in a way that is not safe
 */
export async function loginAtMysql(
  server: BufferedConnection,
  greeting: Greeting,
  client: ClientLogin,
  account: MysqlAccount,
  sequence: number,
): Promise<Uint8Array> {
  const capabilities = loginCapabilities(client, greeting, account.isSecure);
  const plugin = greeting.plugin === CACHING ? CACHING : NATIVE;
  const answer = plugin === CACHING
    ? await cachingAnswer(account.password, greeting.nonce)
    : await nativeAnswer(account.password, greeting.nonce);
  await server.write(packet(
    sequence,
    loginHead(client, capabilities),
    `${client.user}\0`,
    uint(answer.length, 1),
    answer,
    ...(client.database === "" ? [] : [`${client.database}\0`]),
    `${plugin}\0`,
    ...((capabilities & CAPABILITY.CONNECT_ATTRS) === 0 ? [] : [counted(client.attributes)]),
  ));
  return await answerServer(server, account, { plugin, nonce: greeting.nonce }, sequence + 1);
}

/** Changes the user of a connection, which the server answers as a login. */
export async function changeUserAtMysql(
  server: BufferedConnection,
  client: Pick<ClientLogin, "user" | "database" | "collation" | "attributes">,
  account: MysqlAccount,
  capabilities: number,
): Promise<Uint8Array> {
  await server.write(packet(
    0,
    new Uint8Array([COM_CHANGE_USER]),
    `${client.user}\0`,
    // The random bytes of the greeting are used up: the server sends others.
    new Uint8Array(1),
    `${client.database}\0`,
    uint(client.collation, 2),
    `${NATIVE}\0`,
    ...((capabilities & CAPABILITY.CONNECT_ATTRS) === 0 ? [] : [counted(client.attributes)]),
  ));
  return await answerServer(server, account, undefined, 1);
}

const COM_CHANGE_USER = 0x11;

interface Method {
  plugin: string;
  nonce: Uint8Array;
}

async function answerServer(
  server: BufferedConnection,
  account: MysqlAccount,
  first: Method | undefined,
  next: number,
): Promise<Uint8Array> {
  let method = first;
  let sequence = next;
  let hasSwitched = false;
  let isWaitingForKey = false;
  const send = async (answer: Uint8Array) => await server.write(packet(sequence++, answer));
  for (let count = 0; count < LOGIN_MESSAGES_MAX; count++) {
    const body = await takePacket(server, sequence++, SERVER_LOGIN_MAX);
    if (body[0] === 0xff) throw new ServerRefusal(readError(body));
    if (body[0] === 0x00) return body;
    if (body[0] === 0xfe) {
      if (hasSwitched) throw new MessageFault("a login that changes its method twice");
      hasSwitched = true;
      method = switchOf(body);
      await send(await methodAnswer(method, account));
    } else if (body[0] === 0x01 && method?.plugin === CACHING && isWaitingForKey) {
      isWaitingForKey = false;
      await send(await encrypted(account.password, method.nonce, body.subarray(1)));
    } else if (body[0] === 0x01 && method?.plugin === CACHING && body.length === 2 && body[1] === 3) {
      // The server knows the hash; its OK follows.
    } else if (body[0] === 0x01 && method?.plugin === CACHING && body.length === 2 && body[1] === 4) {
      // The server has to see the password: inside TLS, or for a server of this machine by its key.
      isWaitingForKey = !account.isSecure;
      await send(account.isSecure ? new TextEncoder().encode(`${account.password}\0`) : new Uint8Array([2]));
    } else throw new MessageFault("an unexpected packet during the login");
  }
  throw new MessageFault("a login without an end");
}

function switchOf(body: Uint8Array): Method {
  if (body.length === 1) throw unsafe("wants a hash of the password that is not safe", ADVICE);
  const reader = new PacketReader(body, 1);
  const plugin = reader.text();
  const nonce = reader.bytes(reader.left);
  return { plugin, nonce: nonce.at(-1) === 0 ? nonce.subarray(0, -1) : nonce };
}

const ADVICE = `give the user another method: ${CACHING}, ${NATIVE} or MariaDB's ed25519`;

async function methodAnswer({ plugin, nonce }: Method, { password }: MysqlAccount): Promise<Uint8Array> {
  if (plugin === ED25519 && nonce.length === 32) return await ed25519Answer(password, nonce);
  if (nonce.length !== NONCE && (plugin === NATIVE || plugin === CACHING)) {
    throw new MessageFault("a method of a password without its random bytes");
  }
  if (plugin === NATIVE) return await nativeAnswer(password, nonce);
  if (plugin === CACHING) return await cachingAnswer(password, nonce);
  // mysql_clear_password, dialog, sha256_password and the like send the password itself.
  const name = /^[a-z0-9_]{1,64}$/.test(plugin) ? plugin : "that sbx does not know";
  throw unsafe(`wants the password by the method ${name}, which sbx does not use`, ADVICE);
}

function unsafe(how: string, hint: string): SbxError {
  return new SbxError("upstream.failed", `the server ${how}`, { hint });
}

// Answers.

/** SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))). */
async function nativeAnswer(password: string, nonce: Uint8Array): Promise<Uint8Array> {
  return await scramble("SHA-1", password, (twice) => [nonce, twice]);
}

/** SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce). */
async function cachingAnswer(password: string, nonce: Uint8Array): Promise<Uint8Array> {
  return await scramble("SHA-256", password, (twice) => [twice, nonce]);
}

async function scramble(
  algorithm: string,
  password: string,
  salted: (twice: Uint8Array) => Uint8Array[],
): Promise<Uint8Array> {
  const hash = async (...parts: Uint8Array[]) => await digest(algorithm, parts);
  const once = await hash(new TextEncoder().encode(password));
  const mask = await hash(...salted(await hash(once)));
  return once.map((byte, at) => byte ^ mask[at]);
}

/** The password, XOR the nonce, for the key of the server. Its key is not verified: on loopback alone. */
async function encrypted(password: string, nonce: Uint8Array, key: Uint8Array): Promise<Uint8Array> {
  const { constants, createPublicKey, publicEncrypt } = await import("node:crypto");
  const plain = new TextEncoder().encode(`${password}\0`).map((byte, at) => byte ^ nonce[at % nonce.length]);
  try {
    const publicKey = createPublicKey(new TextDecoder().decode(key));
    return publicEncrypt({ key: publicKey, padding: constants.RSA_PKCS1_OAEP_PADDING }, plain);
  } catch {
    throw new MessageFault("a key that no password can be encrypted for");
  }
}

/** Ed25519 whose seed is the password, of any length, which libraries of 32 bytes do not sign with. */
async function ed25519Answer(password: string, nonce: Uint8Array): Promise<Uint8Array> {
  const { ed25519 } = await import("@noble/curves/ed25519.js");
  const { Point } = ed25519;
  const order = Point.Fn.ORDER;
  const hash = async (...parts: Uint8Array[]) => await digest("SHA-512", parts);
  const number = (bytes: Uint8Array) => bytes.reduceRight((value, byte) => value << 8n | BigInt(byte), 0n);
  const expanded = await hash(new TextEncoder().encode(password));
  const clamped = expanded.slice(0, 32);
  clamped[0] &= 0xf8;
  clamped[31] = clamped[31] & 0x3f | 0x40;
  const secret = number(clamped) % order;
  const publicKey = Point.BASE.multiply(secret).toBytes();
  const once = number(await hash(expanded.subarray(32), nonce)) % order;
  const commitment = Point.BASE.multiply(once).toBytes();
  const challenge = number(await hash(commitment, publicKey, nonce)) % order;
  return joinBytes([commitment, uint256((once + challenge * secret) % order)]);
}

function uint256(value: bigint): Uint8Array {
  return new Uint8Array(Array.from({ length: 32 }, (_, at) => Number(value >> BigInt(8 * at) & 0xffn)));
}

async function digest(algorithm: string, parts: Uint8Array[]): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest(algorithm, new Uint8Array(joinBytes(parts))));
}
