/** The host's login at a PostgreSQL server: TLS, the StartupMessage, and the password. */
import { SbxError } from "../../base/error/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { UpgradeRefused } from "../upstream/connect.ts";
import { LOGIN_MESSAGES_MAX, SERVER_LOGIN_MAX } from "./limit.ts";
import {
  errorFields,
  HEAD,
  message,
  nextHead,
  request,
  SSL_REQUEST,
  takeMessage,
  uint32,
  utf8,
} from "./postgres_message.ts";
import { SCRAM, ScramClient } from "./scram.ts";

/** Asks the server to begin TLS. Takes one byte: more could only be written by someone on the path. */
export async function beginPostgresTls(tcp: Deno.TcpConn): Promise<void> {
  await writeAll(tcp, request(SSL_REQUEST));
  const answer = new Uint8Array(1);
  if (await tcp.read(answer) === null) throw new Deno.errors.ConnectionReset();
  if (answer[0] === 0x53) return;
  throw new UpgradeRefused(
    new SbxError("upstream.failed", "the server offers no TLS, and no password is sent without it", {
      hint:
        "switch TLS on at the server; or give --tls off with the credential of a database of this machine",
    }),
  );
}

/** The host's part of a login. */
export interface PostgresAccount {
  user: string;
  password: string;
  /** the connection is encrypted, and the server's certificate verified */
  isSecure: boolean;
  /** an MD5 hash of the password may be sent */
  md5: boolean;
}

/** The server refuses the login, in its own words. */
export class LoginRefused extends Error {
  constructor(readonly state: string, message: string) {
    super(message);
  }
}

/**
 * Logs in.
 *
 * @param startup the StartupMessage
 * @returns messages for the client, from before the login was accepted
 * @throws {LoginRefused}, {SbxError} `upstream.failed`: the server wants the
 * password in a way that is not safe
 */
export async function loginAtPostgres(
  server: BufferedConnection,
  startup: Uint8Array,
  account: PostgresAccount,
): Promise<Uint8Array[]> {
  await server.write(startup);
  const forClient: Uint8Array[] = [];
  let scram: ScramClient | undefined;
  for (let count = 0; count < LOGIN_MESSAGES_MAX; count++) {
    const head = await nextHead(server);
    if (!head) throw new ConnectionLost("closed the connection during the login");
    const whole = await takeMessage(server, head, SERVER_LOGIN_MAX);
    const body = whole.subarray(HEAD);
    if (head.type === "E") throw refusedError(body, account.password);
    // NoticeResponse, NegotiateProtocolVersion
    if (head.type === "N" || head.type === "v") {
      forClient.push(whole);
      continue;
    }
    if (head.type !== "R" || body.length < 4) {
      throw new MessageFault("an unexpected message during the login");
    }
    const method = uint32(body, 0);
    const text = utf8(body.subarray(4));
    switch (method) {
      case 0:
        if (scram && !scram.isProven) throw new MessageFault("a login that ends without the server's proof");
        return [...forClient, whole];
      case 3:
        if (!account.isSecure) throw unsafeError("as plain text without TLS");
        await server.write(message("p", `${account.password}\0`));
        break;
      case 5:
        if (!account.md5) {
          throw unsafeError("as an MD5 hash", "scram-sha-256, or add the credential with --md5");
        }
        await server.write(message("p", `${await md5Answer(account, body.subarray(4, 8))}\0`));
        break;
      case 10: {
        if (scram || !text.split("\0").includes(SCRAM)) {
          throw unsafeError("by a mechanism that sbx does not know");
        }
        scram = new ScramClient(account.password);
        const first = new TextEncoder().encode(scram.first());
        await server.write(message("p", `${SCRAM}\0`, first.length, first));
        break;
      }
      case 11:
        if (!scram) throw new MessageFault("an unexpected message of SCRAM");
        await server.write(message("p", await scram.final(text)));
        break;
      case 12:
        if (!scram) throw new MessageFault("an unexpected message of SCRAM");
        scram.verify(text);
        break;
      default:
        throw unsafeError("in a way that sbx does not know");
    }
  }
  throw new MessageFault("a login without an end");
}

/** The server's words may repeat the password. */
function refusedError(body: Uint8Array, password: string): LoginRefused {
  const fields = errorFields(body);
  const state = fields.get("C") ?? "";
  const text = (fields.get("M") ?? "no reason").replaceAll(password, "[redacted]").slice(0, 512);
  return new LoginRefused(/^[0-9A-Z]{5}$/.test(state) ? state : "08004", text);
}

function unsafeError(how: string, instead = "scram-sha-256"): SbxError {
  return new SbxError("upstream.failed", `the server wants the password ${how}`, {
    hint: `set its password_encryption and pg_hba.conf to ${instead}`,
  });
}

/** `md5` and the hash of (the hash of password and user) and salt. */
async function md5Answer({ user, password }: PostgresAccount, salt: Uint8Array): Promise<string> {
  const { createHash } = await import("node:crypto");
  const inner = createHash("md5").update(password + user).digest("hex");
  return `md5${createHash("md5").update(inner).update(salt).digest("hex")}`;
}
