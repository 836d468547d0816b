/** The commands of pushes, as git and others write them. */
import { assertEquals } from "@std/assert";
import { joinBytes } from "../../../../lib/base/bytes/mod.ts";
import { readPush } from "../../../../lib/network/git/mod.ts";
import { FLUSH, formatPacket } from "../../../../lib/network/git/push.ts";

const ZERO = "0".repeat(40);
const A = "a".repeat(40);
const B = "b".repeat(40);
const PACK = new TextEncoder().encode("PACK\0\0\0\x02");

/** A push of packets; `0000` is a flush. */
function push(...packets: string[]): Uint8Array {
  return joinBytes([...packets.map((text) => text === "0000" ? FLUSH : formatPacket(text)), PACK]);
}

function refsOf(...packets: string[]): string[] {
  const { updates, fault } = readPush(push(...packets));
  return fault === undefined ? updates.map(({ kind, ref }) => `${kind} ${ref}`) : [fault];
}

Deno.test("updates, creations and deletions are told apart, and features are read", () => {
  const { updates, features, fault } = readPush(push(
    `${A} ${B} refs/heads/main\0 report-status side-band-64k object-format=sha1 agent=git/2.39.5`,
    `${ZERO} ${B} refs/tags/v1`,
    `${A} ${ZERO} refs/heads/old`,
    "0000",
  ));
  assertEquals(fault, undefined);
  assertEquals(updates, [
    { kind: "update", new: B, old: A, ref: "refs/heads/main" },
    { kind: "create", new: B, old: ZERO, ref: "refs/tags/v1" },
    { kind: "delete", new: ZERO, old: A, ref: "refs/heads/old" },
  ]);
  assertEquals([...features].slice(0, 2), ["report-status", "side-band-64k"]);
});

Deno.test("shallow lines, push options, line ends, capital digits and SHA-256 are read", () => {
  assertEquals(
    refsOf(
      `shallow ${A}`,
      `${A} ${B} refs/heads/main\0report-status push-options\n`,
      "0000",
      "ci.skip",
      "0000",
    ),
    ["update refs/heads/main"],
  );
  assertEquals(refsOf(`${A.toUpperCase()} ${B} refs/heads/main\n`, "0000"), ["update refs/heads/main"]);
  const long = (digit: string) => digit.repeat(64);
  assertEquals(refsOf(`${long("0")} ${long("a")} refs/heads/main`, "0000"), ["create refs/heads/main"]);
  assertEquals(refsOf("0000"), []);
});

const HEAD = [
  "push-cert\0report-status push-cert=1-abc\n",
  "certificate version 0.1\n",
  "pusher Ann 1 +0000\n",
];

Deno.test("a signed push has its commands in its certificate", () => {
  const signature = ["-----BEGIN PGP SIGNATURE-----\n", "iQ==\n", "-----END PGP SIGNATURE-----\n"];
  const commands = ["\n", `${A} ${B} refs/heads/main\n`, `${A} ${B} refs/heads/dev\n`];
  assertEquals(
    refsOf(...HEAD, ...commands, ...signature, "push-cert-end\n", "0000"),
    ["update refs/heads/main", "update refs/heads/dev"],
  );
  // Git takes what is before the last signature for commands, and more commands may follow the certificate.
  assertEquals(
    refsOf(
      ...HEAD,
      "\n",
      signature[0],
      `${A} ${B} refs/heads/main\n`,
      ...signature,
      "push-cert-end\n",
      "0000",
    ),
    ["a command of another form"],
  );
  assertEquals(
    refsOf(...HEAD, ...commands, ...signature, `${A} ${B} refs/heads/x\n`, "push-cert-end\n", "0000"),
    ["a command in the signature of a certificate"],
  );
  assertEquals(
    refsOf(...HEAD, ...commands, "push-cert-end\n", `${A} ${B} refs/heads/late`, "0000").at(-1),
    "update refs/heads/late",
  );
});

Deno.test("a push that servers may read otherwise is a fault", () => {
  const faults: [string, Uint8Array][] = [
    ["its commands have no end", formatPacket(`${A} ${B} refs/heads/main`)],
    ["its commands have no end", joinBytes([formatPacket(`${A} ${B} refs/heads/main`).subarray(0, 30)])],
    ["a packet without a length", new TextEncoder().encode(`zzzz${A} ${B} refs/heads/main`)],
    ["a packet of length 1", new TextEncoder().encode("0001")],
    ["a packet of length 4", new TextEncoder().encode("0004")],
    ["a packet of length 65535", new TextEncoder().encode("ffff")],
    ["a command of another form", push("command=push", "0000")],
    ["a command of another form", push(`${A} ${"b".repeat(64)} refs/heads/main`, "0000")],
    ["a command that is not UTF-8", joinBytes([formatPacket(Uint8Array.of(0xff, 0x20)), FLUSH])],
    [
      "more than 1000 refs",
      push(...Array.from({ length: 1001 }, (_, at) => `${A} ${B} refs/heads/${at}`), "0000"),
    ],
    ["a certificate without an end", push(...HEAD, "0000")],
    ["a certificate without commands", push(...HEAD, "push-cert-end\n", "0000")],
    ["a certificate with NUL", push(...HEAD, `\n\0${A} ${B} refs/heads/main\n`, "push-cert-end\n", "0000")],
  ];
  for (const [fault, bytes] of faults) assertEquals(readPush(bytes).fault, fault);
});

Deno.test("names that git does not allow are faults, also those that some servers resolve", () => {
  const names = [
    "HEAD",
    "main",
    "heads/main",
    "refs//heads/main",
    "refs/heads/../heads/main",
    "refs/heads/main/",
  ];
  const more = [
    "refs/heads/main.lock",
    "refs/heads/.main",
    "refs/heads/ma in",
    "refs/heads/main\n\n",
    "refs/heads/@{0}",
  ];
  for (const name of [...names, ...more]) {
    assertEquals(refsOf(`${A} ${B} ${name}`, "0000"), ["a ref whose name git does not allow"], name);
  }
  for (const name of ["refs/for/main%submit,r=a@b.example", "refs/heads/größe", "refs/heads/a/b.c"]) {
    assertEquals(refsOf(`${A} ${B} ${name}`, "0000"), [`update ${name}`]);
  }
});
