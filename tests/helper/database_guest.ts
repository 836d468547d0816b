/**
 * A program for a guest, bundled: the clients of npm run statements, and print what
 * each answers as a line of JSON.
 */
import mysql from "mysql2/promise.js";
import pg from "pg";
import { createClient } from "redis";

const [system, host, port, ...statements] = Deno.args;
const place = { host, port: Number(port) };

async function print(run: () => Promise<unknown>) {
  const line = await run().catch((error) => ({ error: error.message, code: error.code }));
  console.log(JSON.stringify(line));
}

if (system === "postgres") {
  const client = new pg.Client({ ...place, user: "app", database: "app", password: "anything" });
  client.on("error", () => {});
  await client.connect();
  for (const text of statements) await print(async () => (await client.query(text)).rows);
  await client.end();
} else if (system === "mysql") {
  const client = await mysql.createConnection({
    ...place,
    user: "app",
    database: "app",
    password: "anything",
  });
  for (const text of statements) await print(async () => (await client.query(text))[0]);
  await client.end();
} else {
  const client = createClient({ socket: { ...place, reconnectStrategy: false }, password: "anything" });
  client.on("error", () => {});
  await client.connect();
  for (const text of statements) await print(() => client.sendCommand(text.split(" ")));
  await client.close();
}
