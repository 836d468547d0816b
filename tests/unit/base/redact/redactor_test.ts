import { assert, assertEquals } from "@std/assert";
import process from "node:process";
import { findInCommands } from "../../../../lib/base/redact/redactor.ts";
import { findDigits } from "../../../../lib/base/redact/shape.ts";
import { findMnemonics } from "../../../../lib/base/redact/mnemonic.ts";
import { Redactor } from "../../../../lib/base/redact/mod.ts";
import { fromRoot } from "../../../helper/repo.ts";

const redactor = new Redactor({ user: "alice" });

const SECRETS: [name: string, text: string, redacted: string][] = [
  ["a home of Linux", "open /home/alice/.sbx/run failed", "open /home/[user]/.sbx/run failed"],
  ["a home of macOS", "/Users/Alice Smith/Library", "/Users/[user]/Library"],
  ["a home of Windows", "C:\\Users\\bob\\AppData", "C:\\Users\\[user]\\AppData"],
  ["a home of Windows in JSON", '"C:\\\\Users\\\\bob\\\\AppData"', '"C:\\\\Users\\\\[user]\\\\AppData"'],
  ["a file URL", "at file:///home/bob/main.ts:3:1", "at file:///home/[user]/main.ts:3:1"],
  ["a home elsewhere", "/srv/people/alice/.sbx", "/srv/people/[user]/.sbx"],
  ["a home on another disk", "/mnt/disk2/home/bob/x", "/mnt/disk2/home/[user]/x"],
  ["a home in a query", "?u=file%3A%2F%2F%2Fhome%2Fbob%2Fx", "?u=file%3A%2F%2F%2Fhome%2F[user]%2Fx"],
  ["the user", "user alice cannot run VMs", "user [user] cannot run VMs"],
  ["a bearer token", "Authorization: Bearer abcdefgh", "Authorization: [redacted]"],
  ["a scheme in a sentence", "sent Bearer abc123def and left", "sent Bearer [redacted] and left"],
  ["a header of basic credentials", "proxy-authorization: Basic dTpw", "proxy-authorization: [redacted]"],
  ["a cookie", "Cookie: a=1; session=2\nHost: x", "Cookie: [redacted]\nHost: x"],
  ["a cookie that is set", "set-cookie: id=7; Secure", "set-cookie: [redacted]"],
  ["token=", "GET /?token=abc&page=2", "GET /?token=[redacted]&page=2"],
  ["api_key=", "api_key=k", "api_key=[redacted]"],
  ["a password", "password: correct horse battery", "password: [redacted]"],
  ["JSON", '{"db_password":"p","n":1}', '{"db_password":"[redacted]","n":1}'],
  ["JSON in JSON", '{"line":"{\\"secret\\":\\"s3\\"}"}', '{"line":"{\\"secret\\":\\"[redacted]\\"}"}'],
  ["an option", "sbx --api-token s3cr3t run", "sbx --api-token [redacted] run"],
  ["a variable", "export MY_SECRET='a b c'", "export MY_SECRET='[redacted]'"],
  [
    "a section of TOML",
    '[settings."ai.api_key"]\nvalue = "plain"\n[settings."vm.cpus"]\nvalue = 4\n',
    '[settings."ai.api_key"]\nvalue = "[redacted]"\n[settings."vm.cpus"]\nvalue = 4\n',
  ],
  ["a form", "password%3Dhunter2", "password%3D[redacted]"],
  ["a URL with a password", "https://bob:pw@example.com/x", "https://[redacted]@example.com/x"],
  ["a URL with a slash in its password", "postgres://bob:p/w@db/x", "postgres://[redacted]@db/x"],
  ["a URL with a token as user", "https://t0ken@example.com", "https://[redacted]@example.com"],
  ["a user of a host without a scheme", "psql shop:pw@db/x", "psql [redacted]@db/x"],
  ["one with a port", "connect root:p!s#w@127.0.0.1:3306.", "connect [redacted]@127.0.0.1:3306."],
  [
    "one with an @ in its password",
    '["bob:p@ss@db.example.com"]',
    '["[redacted]@db.example.com"]',
  ],
  ["one of a Go driver", "DSN=bob:pw@tcp(db:3306)/x", "DSN=[redacted]@tcp(db:3306)/x"],
  ["one of IPv6", "proxy bob:pw@[::1]:80", "proxy [redacted]@[::1]:80"],
  ["an address", "mail bob.smith+x@example.co.uk now", "mail [email] now"],
  ["random words", "key Zk3vQ9xT1mB7rY5wL2pN8c in use", "key [redacted] in use"],
  [
    "an age key",
    `AGE-SECRET-KEY-1${"QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".repeat(2).slice(0, 58)}`,
    "[redacted]",
  ],
  ["a short webhook secret", "whsec_a1b2c3 in use", "[redacted] in use"],
  ["a password of mysql", "mysqldump -u root -phunter2 shop", "mysqldump -u root -p[redacted] shop"],
  ["one in quotes", "/usr/bin/mysql -p'correct horse' shop", "/usr/bin/mysql -p'[redacted]' shop"],
  ["one in arguments", '["mysql","-u","root","-phunter2"]', '["mysql","-u","root","-p[redacted]"]'],
  ["sshpass", "sshpass -p hunter2 ssh -p 22 host", "sshpass -p [redacted] ssh -p 22 host"],
  ["sshpass in arguments", '["sshpass", "-p", "hunter2", "ssh"]', '["sshpass", "-p", "[redacted]", "ssh"]'],
  ["redis-cli", "redis-cli -h db -a hunter2 ping", "redis-cli -h db -a [redacted] ping"],
  ["mongosh", "mongosh -u admin -p hunter2 --port 1", "mongosh -u admin -p [redacted] --port 1"],
  ["a URL of a database", "psql postgresql://u:pw@db/x", "psql postgresql://[redacted]@db/x"],
  ["docker login", "docker login -u a -p hunter2 reg", "docker login -u a -p [redacted] reg"],
  ["zip", "zip -P hunter2 a.zip b", "zip -P [redacted] a.zip b"],
  [
    "a mnemonic",
    "seed: legal winner thank year wave sausage worth useful legal winner thank yellow.",
    "seed: [redacted].",
  ],
  [
    "a mnemonic in JSON",
    '["legal","winner","thank","year","wave","sausage","worth","useful","legal","winner","thank","yellow"]',
    '["[redacted]"]',
  ],
  [
    "a numbered mnemonic",
    "1. legal\n2. winner\n3. thank\n4. year\n5. wave\n6. sausage\n7. worth\n8. useful\n9. legal\n10. winner\n11. thank\n12. yellow\n",
    "1. [redacted]\n",
  ],
  ["a secret of an authenticator", "scan otpauth://totp/A:b?secret=JBSWY3DP now", "scan [redacted] now"],
  ["a one-time code", "OTP 123456", "OTP [redacted]"],
  ["a one-time code in JSON", '{"otp":"123456"}', '{"otp":"[redacted]"}'],
  ["a code in a sentence", "your code is 123 456, go", "your code is [redacted], go"],
  [
    "a code at the beginning",
    "G-123456 is your Google verification code",
    "G-[redacted] is your Google verification code",
  ],
  ["a PIN", "PIN: 1234", "PIN: [redacted]"],
  ["a card in groups", "card 4111 1111 1111 1111 ok", "card [redacted] ok"],
  ["a card", '{"number":"5555555555554444"}', '{"number":"[redacted]"}'],
  ["a card of 15 digits", "3782-822463-10005", "[redacted]"],
  ["German", "Kennwort: hunter2", "Kennwort: [redacted]"],
  ["French", "mot de passe : hunter2", "mot de passe : [redacted]"],
  ["Spanish", '{"contraseña":"hunter2"}', '{"contraseña":"[redacted]"}'],
  ["Portuguese", "senha=hunter2", "senha=[redacted]"],
  ["Italian", "parola d'ordine e password: hunter2", "parola d'ordine e password: [redacted]"],
  ["Dutch", "wachtwoord: hunter2", "wachtwoord: [redacted]"],
  ["Polish", "HASŁO=hunter2", "HASŁO=[redacted]"],
  ["Russian", "Пароль: hunter2", "Пароль: [redacted]"],
  ["Japanese", "パスワード：hunter2", "パスワード：[redacted]"],
  ["Chinese", "密码是hunter2", "密码是[redacted]"],
  ["Turkish", "şifre = hunter2", "şifre = [redacted]"],
  ["Korean", "비밀번호: hunter2", "비밀번호: [redacted]"],
  [
    "a key in PEM",
    "a\n-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\nb",
    "a\n[redacted]\nb",
  ],
];
for (const [name, text, redacted] of SECRETS) {
  Deno.test(`redacts ${name}`, () => {
    assertEquals(redactor.text(text), redacted);
    assertEquals(redactor.text(redacted), redacted);
  });
}

const KEPT: [name: string, text: string][] = [
  ["a hash", `rootfs ${"0123456789abcdef".repeat(4)} does not match`],
  ["a hash in JSON", `{"manifest_hash":"${"0123456789abcdef".repeat(4)}"}`],
  ["a ref", `credential:blake3:${"0123456789abcdef".repeat(4)}`],
  ["a commit", "build 0123456789abcdef0123456789abcdef01234567"],
  ["an id", "session 8f14e45f-ceea-467f-a9b6-2c1d0e5b7a11 ended"],
  ["the id of a session", "Session: 8f14e45f-ceea-467f-a9b6-2c1d0e5b7a11"],
  ["a file of an image", "/assets/rootfs-0123456789abcdef.erofs"],
  ["versions", "QEMU 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18), deno 2.9.6, npm:zod@4.6.7"],
  ["an image with tag and digest", `docker pull alpine:3.19@sha256:${"0123456789abcdef".repeat(4)}`],
  ["packages", "npm:react@next jsr:@std/assert@1 actions/checkout@v4"],
  ["a time and a place", "meet 12:30@work, job build:test @ci"],
  ["a sentence", "bad token: run sbx stop, and then sbx start"],
  ["an advice", "SBX_LOG=debug shows more; sbx credentials list shows the keys"],
  ["a name of a function", "at Http2UpstreamConnectionPool.readInt32LittleEndianFromBuffer (pool.ts:3:1)"],
  ["a kernel line", "[    0.000000] Linux version 6.12.57+deb13-cloud-amd64 (gcc-14 14.2.0) #1 SMP"],
  ["a path of a token file", "gateway_token_file: /run/sbx/gateway.token"],
  ["a folder that is called home", "/tmp/test/home/run/service.pid"],
  ["a count", "input_tokens: 300, max_tokens: 4096"],
  ["ports", "docker run -p 80:80 mysql; docker run mysql:8 -p3306:3306"],
  ["a database's name", "mysql -u root -p shop"],
  ["a variable as a password", "sshpass -p $PASSWORD ssh host"],
  ["codes of an exit and an error", "exit code is 123456, error code is 100234, HTTP code: 4041"],
  ["pins of a chip", "pin 12, pin: 4, pinned 123456"],
  ["the time in ms, µs and ns", "1700000000000 1700000000000000 1700000000000000000"],
  ["an id of 19 digits", "trace 4222222222222222220"],
  ["a number without the check digit", "4111 1111 1111 1112"],
  ["a list of numbers in hex", "5230 522E 5236\n5352 5354 5353 5351 5366 53AB"],
  ["a table of cases", Array.from({ length: 20 }, (_, at) => `case ${at}:`).join("\n")],
  ["a float", "0.4111111111111111"],
  ["an id of digits", "44444444-4444-4444-4444-444444444448"],
  ["a serial number of a SIM card", "8944500102198304826"],
  [
    "words in alphabetical order",
    "abandon ability able about above absent absorb abstract absurd abuse access accident account",
  ],
  [
    "prose of short words",
    "When you use this tool, note that you can also add your own rules there and then check them all again",
  ],
  [
    "a sentence about passwords",
    "Das Passwort steht dort nicht; la contraseña no se guarda; пароль не хранится",
  ],
  ["an address of this machine", "listening on http://127.0.0.1:19222"],
];
for (const [name, text] of KEPT) {
  Deno.test(`keeps ${name}`, () => assertEquals(redactor.text(text), text));
}

Deno.test("hosts are replaced on request only", () => {
  const text = "ada.example.com asked https://api.example.com:443/x and 10.1.2.3, not 127.0.0.1";
  assertEquals(redactor.text(text), text);
  assertEquals(
    new Redactor({ hosts: ["ada.example.com", "ada"] }).text(text),
    "[host] asked https://[host]:443/x and [host], not 127.0.0.1",
  );
});

Deno.test("values of fields with secret names are replaced, and everything else of a value stays", () => {
  const value = {
    settings: [{ id: "ai.key", value: "plain" }],
    "openai-token": "plain",
    nested: { cookie: ["a", "b"], count: 3, path: "/home/bob/x" },
  };
  assertEquals(redactor.value(value), {
    settings: [{ id: "ai.key", value: "plain" }],
    "openai-token": "[redacted]",
    nested: { cookie: ["[redacted]", "[redacted]"], count: 3, path: "/home/[user]/x" },
  });
});

Deno.test("a tail that begins or ends inside of a private key shows nothing of it", () => {
  const line = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2";
  const key = `-----BEGIN PRIVATE KEY-----\n${`${line}\n`.repeat(20)}-----END PRIVATE KEY-----`;
  assert(!redactor.text(key.slice(100)).includes("QUJD"));
  assert(!redactor.text(key.slice(0, -100)).includes("QUJD"));
});

Deno.test("hostile text takes time in proportion to its length", () => {
  const pieces = [
    "ey-",
    "-----BEGIN PRIVATE KEY-----",
    "-----END PRIVATE KEY-----",
    "a@a.",
    "token ",
    "t1.",
    "a=",
    "://a:",
    "/home/A A A ",
    "A1",
    '\\\\\\"',
    "cookie:",
    "x.webhook.",
    "kind: Secret\n a:",
    "=A\n",
    "\n[token]\n",
    "[token]\na=b\n",
    "mysql -p",
    "sshpass -p '",
    "abandon ",
    "able abandon, 1. ",
    "otp ",
    "code is ",
    "4111 ",
    "41111111",
    "otpauth://",
    "a:a@",
    "a:",
    "пароль: ",
  ];
  /** The fastest of three tries in `ms`, or the first one that is fast enough. */
  const fastest = (size: number, piece: string, enough = 0) => {
    const text = piece.repeat(Math.ceil(size / piece.length));
    let best = Infinity;
    for (let tries = 0; tries < 3 && best >= enough; tries++) {
      // Of the processor: other programs of this machine take none of it.
      const began = process.cpuUsage();
      new Redactor().text(text);
      const { user, system } = process.cpuUsage(began);
      best = Math.min(best, (user + system) / 1000);
    }
    return best;
  };
  // 8 where linear, 64 where quadratic.
  const RATIO_MAX = 40;
  for (const piece of pieces) {
    const short = Math.max(10, fastest(32 * 1024, piece));
    const ratio = fastest(256 * 1024, piece, RATIO_MAX * short) / short;
    assert(
      ratio < RATIO_MAX,
      `${JSON.stringify(piece)}: ${ratio.toFixed(1)} times as long for 8 times the text`,
    );
  }
});

Deno.test("text of people and programs stays: licenses, the manual, and lists of words", async () => {
  const found: string[] = [];
  for (
    const path of [
      "LICENSE",
      "CONTRIBUTING.md",
      "docs/guides/policy.md",
      "docs/concepts/network.md",
      "docs/guides/live.md",
      "docs/design/toml.md",
    ]
  ) {
    const text = await Deno.readTextFile(fromRoot(path));
    for (const finder of [findDigits, findInCommands, findMnemonics]) {
      found.push(...finder(text).map(({ start, end }) => `${path}: ${text.slice(start, end)}`));
    }
  }
  assertEquals(found, []);
});
