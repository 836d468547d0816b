/**
 * Sources of a company for its images, on loopback: an apt repository signed by its key, an index of
 * Python packages, a registry of crates, and a proxy of Go modules. All real in form, and made here.
 */
import { createHash } from "node:crypto";
import { dirname, join } from "node:path";
import { runChild } from "./child.ts";

const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");

/** Hash of a module's files as go.sum has it (golang.org/x/mod/sumdb/dirhash, Hash1). */
function hash1(files: [string, string][]): string {
  const lines = files.toSorted(([a], [b]) => a < b ? -1 : 1).map(([name, text]) =>
    `${sha256(new TextEncoder().encode(text))}  ${name}\n`
  );
  return "h1:" + createHash("sha256").update(lines.join("")).digest("base64");
}

/** Sources of a company in a folder, and the server of them. */
export class CompanySources implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  private constructor(
    /** holds `www`, and files for a profile's folder in `profile` */
    readonly dir: string,
    /** go.sum of its module */
    readonly goSum: string,
  ) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
      const path = decodeURIComponent(new URL(request.url).pathname).replace(/\/$/, "/index.html");
      if (path === "/crates/config.json") {
        return Response.json({ dl: `${this.url}/dl/{crate}-{version}.crate`, api: null });
      }
      const bytes = await Deno.readFile(join(dir, "www", path)).catch(() => undefined);
      return new Response(bytes ?? null, {
        status: bytes ? 200 : 404,
        headers: path.endsWith(".html") ? { "content-type": "text/html" } : {},
      });
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Writes a file of the profile's folder. @returns its pin, as TOML */
  async pin(file: string, content: string | Uint8Array): Promise<string> {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    const path = join(this.dir, "profile", file);
    await Deno.mkdir(dirname(path), { recursive: true });
    await Deno.writeFile(path, bytes);
    return `{ file = "${file}", sha256 = "${sha256(bytes)}" }`;
  }

  static async make(): Promise<CompanySources> {
    const dir = await Deno.makeTempDir({ prefix: "sbx-company-" });
    await Deno.chmod(dir, 0o755);
    await makeWheel(dir);
    await makeCrate(dir);
    return new CompanySources(dir, await makeModule(dir));
  }

  /** Builds a Debian package of one program. @returns its path */
  async deb(name: string, version = "1.0"): Promise<string> {
    const tree = join(this.dir, `deb-${name}`);
    await write(
      join(tree, "DEBIAN/control"),
      [
        `Package: ${name}\nVersion: ${version}\nArchitecture: all`,
        `Maintainer: Company <it@example.com>\nDescription: a tool of a company\n`,
      ].join("\n"),
    );
    await write(join(tree, "usr/bin", name), `#!/bin/sh\necho ${name} ${version}\n`, 0o755);
    const path = join(this.dir, `${name}_${version}_all.deb`);
    await sh('chmod -R go-w "$1" && dpkg-deb --root-owner-group --build "$1" "$2"', tree, path);
    return path;
  }

  /**
   * Signs a repository of a package, with `apt-ftparchive` and gpg. @returns the armoured public key
   * @param folder of the server
   */
  async aptRepository(folder: string, deb: string): Promise<string> {
    const home = await Deno.makeTempDir();
    try {
      const { stdout } = await sh(
        `mkdir -p "$2/pool" "$2/dists/stable/main/binary-amd64"; cp "$3" "$2/pool/"; cd "$2"
        apt-ftparchive packages pool >dists/stable/main/binary-amd64/Packages
        apt-ftparchive -o APT::FTPArchive::Release::Suite=stable -o APT::FTPArchive::Release::Codename=stable \\
          -o APT::FTPArchive::Release::Components=main -o APT::FTPArchive::Release::Architectures=amd64 \\
          release dists/stable >Release.new; mv Release.new dists/stable/Release
        gpg="gpg --homedir $1 --batch --quiet --pinentry-mode loopback --passphrase="
        $gpg --quick-gen-key "company <it@example.com>" ed25519 sign never
        $gpg --clearsign -o dists/stable/InRelease dists/stable/Release
        $gpg --export --armor; gpgconf --homedir "$1" --kill all`,
        home,
        join(this.dir, "www", folder),
        deb,
      );
      return new TextDecoder().decode(stdout);
    } finally {
      await Deno.remove(home, { recursive: true });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
    await Deno.remove(this.dir, { recursive: true });
  }
}

/** A wheel with a program, `corp-greet`. */
async function makeWheel(dir: string): Promise<void> {
  const info = "corp_greet-1.2.0.dist-info";
  const tree = join(dir, "wheel");
  await write(join(tree, "corp_greet.py"), 'def main():\n    print("greetings from the company")\n');
  await write(
    join(tree, info, "METADATA"),
    "Metadata-Version: 2.1\nName: corp-greet\nVersion: 1.2.0\nLicense: Company Internal\n",
  );
  await write(
    join(tree, info, "WHEEL"),
    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
  );
  await write(join(tree, info, "entry_points.txt"), "[console_scripts]\ncorp-greet = corp_greet:main\n");
  await write(
    join(tree, info, "RECORD"),
    `corp_greet.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`,
  );
  const folder = join(dir, "www/simple/corp-greet");
  await Deno.mkdir(folder, { recursive: true });
  await sh(
    'cd "$1" && python3 -c \'import zipfile,sys,pathlib\n' +
      'z = zipfile.ZipFile(sys.argv[1], "w")\n' +
      '[z.write(p) for p in sorted(pathlib.Path(".").rglob("*")) if p.is_file()]\' "$2"',
    tree,
    join(folder, WHEEL),
  );
  await write(join(folder, "index.html"), `<a href="${WHEEL}">${WHEEL}</a>\n`);
}

/** Name of the wheel below `/simple/corp-greet`. */
export const WHEEL = "corp_greet-1.2.0-py3-none-any.whl";

/**
 * A crate with a program, `corp-hello`, whose build script tries to reach the network, to record a crate
 * that it is not made of, and to replace a program of Go.
 */
async function makeCrate(dir: string): Promise<void> {
  const tree = join(dir, "corp-hello-0.3.0");
  await write(
    join(tree, "Cargo.toml"),
    '[package]\nname = "corp-hello"\nversion = "0.3.0"\nedition = "2021"\nbuild = "build.rs"\n[workspace]\n',
  );
  await write(
    join(tree, "Cargo.lock"),
    'version = 3\n\n[[package]]\nname = "corp-hello"\nversion = "0.3.0"\n',
  );
  await write(
    join(tree, "build.rs"),
    `fn main() {
    let names: Vec<String> = std::fs::read_dir("/proc/self/net/").unwrap()
        .filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    assert!(!names.is_empty());
    let devices = std::fs::read_to_string("/proc/self/net/dev").unwrap().lines().count() - 2;
    let root = std::fs::write("/etc/built", "x").is_ok();
    let forged = format!("[[package]]\\nname = \\"forged\\"\\nversion = \\"1.0.0\\"\\nchecksum = \\"{}\\"\\n", "0".repeat(64));
    for name in ["lock.corp-hello.toml", "lock.crates.toml", "lock.more.toml"] {
        std::fs::write(format!("/build/out/{}", name), &forged).unwrap();
    }
    let _ = std::fs::create_dir_all("/build/work/gobin");
    let _ = std::fs::write("/build/work/gobin/tool", "#!/bin/sh\\necho forged\\n");
    println!("cargo:rustc-env=BUILT=devices {} root {}", devices, root);
}
`,
  );
  await write(
    join(tree, "src/main.rs"),
    'fn main() { println!("hello from the company, built with {}", env!("BUILT")); }\n',
  );
  await Deno.mkdir(join(dir, "www/dl"), { recursive: true });
  const crate = join(dir, "www/dl/corp-hello-0.3.0.crate");
  await sh('tar -C "$1" -czf "$2" corp-hello-0.3.0', dir, crate);
  const line = {
    name: "corp-hello",
    vers: "0.3.0",
    deps: [],
    cksum: sha256(await Deno.readFile(crate)),
    features: {},
    yanked: false,
  };
  await write(join(dir, "www/crates/co/rp/corp-hello"), JSON.stringify(line) + "\n");
}

/** A module with a program. @returns its go.sum */
async function makeModule(dir: string): Promise<string> {
  const [path, version] = ["corp.example/tool", "v1.4.0"];
  const goMod = `module ${path}\n\ngo 1.19\n`;
  const main = 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("tool of the company") }\n';
  const files: [string, string][] = [[`${path}@${version}/go.mod`, goMod], [
    `${path}@${version}/main.go`,
    main,
  ]];
  const tree = join(dir, "module");
  for (const [name, text] of files) await write(join(tree, name), text);
  const place = join(dir, "www/go", path, "@v");
  await write(
    join(place, `${version}.info`),
    JSON.stringify({ Version: version, Time: "2026-01-01T00:00:00Z" }),
  );
  await write(join(place, `${version}.mod`), goMod);
  await write(join(place, "list"), `${version}\n`);
  await sh(
    'cd "$1" && python3 -c \'import zipfile,sys\n' +
      'z = zipfile.ZipFile(sys.argv[1], "w")\n[z.write(p) for p in sys.argv[2:]]\' "$2" "$3" "$4"',
    tree,
    join(place, `${version}.zip`),
    ...files.map(([name]) => name),
  );
  return `${path} ${version} ${hash1(files)}\n${path} ${version}/go.mod ${hash1([["go.mod", goMod]])}\n`;
}

async function write(path: string, text: string, mode = 0o644): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  await Deno.writeTextFile(path, text, { mode });
}

async function sh(script: string, ...args: string[]) {
  const ran = await runChild("sh", { args: ["-euc", script, "sh", ...args] });
  if (ran.code !== 0) throw new Error(new TextDecoder().decode(ran.stderr));
  return ran;
}
