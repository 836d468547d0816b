/**
 * Names of databases as a MySQL server compares them: where it takes PROD for prod
 * (`lower_case_table_names`), rules and credentials have to do the same.
 */
import type { BufferedConnection } from "../connection.ts";
import { MessageFault } from "../fault.ts";
import { SERVER_LOGIN_MAX } from "./limit.ts";
import { decode, packet, PacketReader, takePacket } from "./mysql_packet.ts";

const QUERY = 0x03;
const ERROR = 0xff;
const QUESTION = "SELECT @@lower_case_table_names";
/** Answers of a server that tells upper case from lower. */
const EXACT = "0";

/** @returns the name that the server takes a name for; `undefined` where that is not sure */
export type NameReading = (name: string) => string | undefined;

/**
 * Asks a server that has just accepted a login how it compares names. One that does not answer
 * gets names in lower case alone.
 *
 * @param hasNoEof the server ends results by an OK in place of EOF
 */
export async function askNames(server: BufferedConnection, hasNoEof: boolean): Promise<NameReading> {
  await server.write(packet(0, new Uint8Array([QUERY]), QUESTION));
  let sequence = 1;
  const next = () => takePacket(server, sequence++, SERVER_LOGIN_MAX);
  const first = await next();
  if (first[0] === ERROR) return (name) => isFolded(name) ? name : undefined;
  if (new PacketReader(first).count() !== 1) throw new MessageFault("a false answer to a question of sbx");
  await next();
  if (!hasNoEof) await next();
  const answer = decode(new PacketReader(await next()).counted());
  await next();
  if (answer === EXACT) return (name) => name;
  // The server folds letters beyond ASCII in its own way.
  return (name) => {
    const folded = name.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
    return isFolded(folded) ? folded : undefined;
  };
}

function isFolded(name: string): boolean {
  return name === name.toLowerCase();
}
