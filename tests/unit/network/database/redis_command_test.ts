/** Kinds and fingerprints of Redis's commands. */
import { assertEquals } from "@std/assert";
import { readCommand } from "../../../../lib/network/database/redis_command.ts";

const read = (...args: string[]) => readCommand(args.map((arg) => new TextEncoder().encode(arg)));

Deno.test("a command has the kind of its name and subcommand, and one that is not known may do anything", () => {
  for (
    const [kind, ...commands] of [
      [
        "read",
        "GET k",
        "ping",
        "HGETALL k",
        "OBJECT ENCODING k",
        "CLIENT SETNAME x",
        "Pubsub Channels",
        "MULTI",
      ],
      ["write", "set k v", "DEL k", "PUBLISH c m", "XGROUP CREATE a b c", "SORT k STORE x"],
      ["ddl", "FLUSHALL", "flushdb ASYNC", "SWAPDB 0 1"],
      [
        "admin",
        "CONFIG GET requirepass",
        "ACL LIST",
        "EVAL x 0",
        "FCALL f 0",
        "FUNCTION LOAD x",
        "SCRIPT LOAD x",
        "MIGRATE h 1 k 0 1",
        "DEBUG SLEEP 1",
        "MONITOR",
        "SHUTDOWN",
        "CLIENT KILL x",
        "CLIENT",
        "JSON.SET k . 1",
        "OBJECT",
        "gibberish",
        "__proto__",
        "constructor x",
      ],
    ]
  ) for (const command of commands) assertEquals(read(...command.split(" ")).kind, kind, command);
});

Deno.test("a fingerprint holds names of commands only", () => {
  assertEquals(read("SET", "secret-key", "secret-value").fingerprint, "set ? ?");
  assertEquals(read("CONFIG", "GET", "x").fingerprint, "config get ?");
  assertEquals(read("MSET", ..."abcdef").fingerprint, "mset ? ? ? ? …");
  assertEquals(read("a secret", "b"), { kind: "admin", command: "?", fingerprint: "? ?" });
  assertEquals(read("CONFIG", "a secret").fingerprint, "config ?");
});
