/** SCRAM-SHA-256 against the example of RFC 7677 and servers that do not know the password. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { MessageFault } from "../../../../lib/network/fault.ts";
import { ScramClient } from "../../../../lib/network/database/scram.ts";

// RFC 7677 §3 with the user that PostgreSQL leaves empty; the proofs were worked out with Python's hashlib.
const NONCE = "rOprNGfwEbeRWgbNEkqO";
const SERVER = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const FIRST = `r=${NONCE}${SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`;

Deno.test("a client proves that it knows the password, and lets the server prove it", async () => {
  const client = new ScramClient("pencil", NONCE);
  assertEquals(client.first(), `n,,n=,r=${NONCE}`);
  const final = await client.final(FIRST);
  assertEquals(final.split(",p=")[0], `c=biws,r=${NONCE}${SERVER}`);
  assertEquals(final.split(",p=")[1], "qvT2SWdEH5Q06albL+hjSYuUhCG7VndFyzIb7CK4n9k=");
  assertThrows(() => client.verify("v=AAAA"), MessageFault, "does not know the password");
  assert(!client.isProven);
  client.verify("v=3HO6Qt1M4MKJrmlKaoOqLAI0/0TV0HZe7J9H3MBtSOg=");
  assert(client.isProven);
});

Deno.test("false messages of a server end the login before a proof is sent", async () => {
  for (
    const message of [
      `r=other${SERVER},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`,
      `r=${NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096`,
      `r=${NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0`,
      `r=${NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999`,
      `m=x,${FIRST}`,
      "e=other-error",
      "",
    ]
  ) {
    await assertRejects(
      () => new ScramClient("pencil", NONCE).final(message),
      MessageFault,
      "SCRAM",
      message,
    );
  }
  assertThrows(() => new ScramClient("pencil", NONCE).verify("v="), MessageFault);
});
