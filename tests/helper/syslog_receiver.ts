/** Debian's rsyslog and syslog-ng over TLS on loopback, each in a folder of its own. */
import { assert } from "@std/assert";
import { join } from "node:path";
import { timeLimit } from "../../lib/base/time/mod.ts";
import { runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";

/** Longest wait for messages, in `ms`: a receiver may end a connection without its messages. */
const MESSAGES_MS = 120_000;

export const RECEIVERS = ["rsyslog", "syslog-ng"] as const;

/** A message as the receiver has parsed it. */
export interface Received {
  priority: string;
  host: string;
  program: string;
  message_id: string;
  /** the structured data that it found */
  data: string;
  message: string;
}

const ROOT = fromRoot(".cache/receivers");
const LIBRARIES = [
  `usr/lib/${Deno.build.arch}-linux-gnu`,
  `lib/${Deno.build.arch}-linux-gnu`,
  "usr/lib/syslog-ng",
];

/** A receiver whose port stays when it is killed and started again. */
export class SyslogReceiver implements AsyncDisposable {
  readonly #kind: typeof RECEIVERS[number];
  readonly #dir: string;
  #child?: Deno.ChildProcess;

  private constructor(kind: typeof RECEIVERS[number], dir: string, readonly port: number) {
    this.#kind = kind;
    this.#dir = dir;
  }

  static async make(kind: typeof RECEIVERS[number]): Promise<SyslogReceiver> {
    const fetched = await runChild(fromRoot("scripts/receivers.sh"), {});
    assert(fetched.success, new TextDecoder().decode(fetched.stderr));
    const dir = await Deno.makeTempDir({ prefix: "sbx-syslog-" });
    const made = await runChild("openssl", {
      args: [
        ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
        ...["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        ...["-addext", "basicConstraints=critical,CA:FALSE"],
        ...["-keyout", join(dir, "key.pem"), "-out", join(dir, "cert.pem")],
      ],
    });
    assert(made.success, new TextDecoder().decode(made.stderr));
    // A socket that is bound and closed leaves its port to the next one that names it.
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr;
    listener.close();
    return new SyslogReceiver(kind, dir, port);
  }

  get caFile(): string {
    return join(this.#dir, "cert.pem");
  }

  /** Starts it, and waits until it takes connections. */
  async start(): Promise<void> {
    const file = (name: string) => join(this.#dir, name);
    const program = join(ROOT, "usr/sbin", this.#kind === "rsyslog" ? "rsyslogd" : "syslog-ng");
    await this.#dropHalfLine();
    await Deno.writeTextFile(file("conf"), this.#kind === "rsyslog" ? this.#rsyslog() : this.#syslogNg());
    const args = this.#kind === "rsyslog"
      ? ["-n", "-f", file("conf"), "-i", file("pid"), "-M", join(ROOT, LIBRARIES[0], "rsyslog")]
      : [
        ...[
          "-F",
          "--no-caps",
          "-f",
          file("conf"),
          "-p",
          file("pid"),
          "-R",
          file("persist"),
          "-c",
          file("control"),
        ],
        ...["--stderr", "--module-path", await moduleFolder()],
      ];
    const log = await Deno.open(file("log"), { create: true, append: true });
    this.#child = new Deno.Command(program, {
      args,
      env: { LD_LIBRARY_PATH: LIBRARIES.map((folder) => join(ROOT, folder)).join(":") },
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#child.stderr.pipeTo(log.writable);
    const ended = this.#child.status.then(async () => {
      throw new Error(`${this.#kind} ended: ${await Deno.readTextFile(file("log"))}`);
    });
    const listens = (async () => {
      for (;;) {
        try {
          (await Deno.connect({ hostname: "127.0.0.1", port: this.port })).close();
          return;
        } catch {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
    })();
    await Promise.race([ended, listens]);
    ended.catch(() => {/* killed by its test */});
  }

  /** Removes what a receiver that was killed had written of a line. */
  async #dropHalfLine(): Promise<void> {
    const out = join(this.#dir, "out");
    const text = await Deno.readFile(out).catch(() => new Uint8Array());
    const end = text.lastIndexOf(0x0a) + 1;
    if (end < text.length) await Deno.truncate(out, end);
  }

  /** Kills it, in the middle of whatever it does. */
  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#child?.status;
    this.#child = undefined;
  }

  /** Waits until it has written a message that passes. @returns all messages that it has written */
  async messages(isThere: (messages: Received[]) => boolean): Promise<Received[]> {
    const end = Date.now() + timeLimit(MESSAGES_MS);
    for (;;) {
      const text = await Deno.readTextFile(join(this.#dir, "out")).catch(() => "");
      const messages = text.split("\n").slice(0, -1).map((line) => JSON.parse(line) as Received);
      if (isThere(messages)) return messages;
      if (Date.now() > end) {
        throw new Error(`the receiver has ${messages.length} messages, and gets no others`);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await Deno.remove(this.#dir, { recursive: true });
  }

  #rsyslog(): string {
    const file = (name: string) => join(this.#dir, name);
    const field = (name: string, property: string, last = false) =>
      `constant(value="\\"${name}\\":\\"") property(name="${property}" format="json") ` +
      `constant(value="\\"${last ? "}\\n" : ","}")`;
    return [
      `global(workDirectory="${this.#dir}" maxMessageSize="64k" defaultNetstreamDriver="ossl"`,
      `  defaultNetstreamDriverCAFile="${file("cert.pem")}" defaultNetstreamDriverCertFile="${
        file("cert.pem")
      }"`,
      `  defaultNetstreamDriverKeyFile="${file("key.pem")}")`,
      `module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")`,
      `template(name="parsed" type="list") { constant(value="{")`,
      field("priority", "pri"),
      field("host", "hostname"),
      field("program", "app-name"),
      field("message_id", "msgid"),
      field("data", "structured-data"),
      field("message", "msg", true),
      `}`,
      `input(type="imtcp" address="127.0.0.1" port="${this.port}")`,
      `action(type="omfile" file="${file("out")}" template="parsed")`,
      "",
    ].join("\n");
  }

  #syslogNg(): string {
    const file = (name: string) => join(this.#dir, name);
    const pairs = [
      `priority=$PRI`,
      `host=$HOST`,
      `program=$PROGRAM`,
      `message_id=$MSGID`,
      `data=$SDATA`,
      `message=$MESSAGE`,
    ];
    return [
      "@version: 3.38",
      "options { keep-hostname(yes); log-msg-size(65536); };",
      `source s { syslog(ip("127.0.0.1") port(${this.port}) transport("tls")`,
      `  tls(cert-file("${file("cert.pem")}") key-file("${
        file("key.pem")
      }") peer-verify(optional-untrusted))); };`,
      `destination d { file("${file("out")}" template("$(format-json --pair ${
        pairs.join(" --pair ")
      })\\n")); };`,
      "log { source(s); destination(d); };",
      "",
    ].join("\n");
  }
}

async function moduleFolder(): Promise<string> {
  const folder = join(ROOT, "usr/lib/syslog-ng");
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (isDirectory && /^\d/.test(name)) return join(folder, name);
  }
  throw new Error(`no modules in ${folder}`);
}
