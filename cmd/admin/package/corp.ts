/** `sbx-admin package corp`: a company's settings as a Debian package (docs/guides/administrators.md). */
import { type Command, JSON_OPTION, usageError } from "../../../lib/base/args/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { note, print, printJson } from "../../../lib/base/print/mod.ts";
import { VERSION } from "../../../lib/base/version/mod.ts";
import { corpDeb, debianVersion, writeDeb } from "../../../lib/publish/package/mod.ts";
import { PROGRAM } from "../program.ts";

export const packageCorp: Command = {
  name: "package corp",
  usage: "--manifest-url URL --corp FILE --out DIR [OPTIONS]",
  summary:
    "make a company's package: corp.toml, the images of its machines, its trusted keys and certificates",
  notes: [
    "corp.toml is validated first, as on a machine with the package's files. Rule files that it names by relative paths come with it. docs/guides/administrators.md goes through all steps.",
  ],
  options: [
    { name: "manifest-url", value: "URL", about: "manifest of the images, https:// or file://" },
    { name: "corp", value: "FILE", about: "corp.toml" },
    { name: "out", value: "DIR", about: "folder for the package" },
    { name: "ca", value: "FILE", about: "root certificates in PEM, installed as /etc/sbx/ca.pem" },
    {
      name: "file",
      value: "FILE",
      many: true,
      about: "another file that corp.toml names, as /etc/sbx/NAME; repeatable",
    },
    {
      name: "releases",
      value: "DIR",
      about: "published tree of the company's profiles, as /usr/share/sbx/releases",
    },
    { name: "release-trust", value: "FILE", about: "keys of the company's releases, release-trust.json" },
    { name: "name", value: "NAME", about: "name of the package; default sbx-corp-config" },
    {
      name: "version",
      value: "VERSION",
      about: "version of the package; default YYYY.MMDD.HHMM of the build, UTC",
    },
    {
      name: "maintainer",
      value: "TEXT",
      about: 'such as "IT <it@example.com>"; default root of this machine',
    },
    JSON_OPTION,
  ],
  words: { min: 0, max: 0 },
  examples: [
    "sbx-admin package corp --manifest-url https://sbx.example.com/manifest.json --corp corp.toml --out dist",
  ],
  async run(args) {
    const required = (name: string) => {
      const value = args.text(name);
      if (value !== undefined) return value;
      throw usageError({ program: PROGRAM, command: packageCorp }, `missing option --${name}`);
    };
    const [manifestUrl, corp, out] = ["manifest-url", "corp", "out"].map(required);
    const time = buildTime();
    const [ca, trust, releases] = [args.text("ca"), args.text("release-trust"), args.text("releases")];
    const { corpCheck } = await import("../../../lib/home/value_check/mod.ts");
    const { deb, needs, warnings } = await corpDeb({
      manifestUrl,
      corp,
      ...(ca !== undefined && { ca }),
      ...(trust !== undefined && { trust }),
      ...(releases !== undefined && { releases }),
      files: args.list("file"),
      check: corpCheck,
      name: args.text("name") ?? "sbx-corp-config",
      version: args.text("version") ?? versionOf(time),
      maintainer: args.text("maintainer") ?? `root <root@${Deno.hostname()}>`,
      minSbx: debianVersion(VERSION),
      sourceDateEpoch: Math.floor(time.getTime() / 1000),
    });
    const path = await writeDeb(deb, out);
    const { Package: name, Version: version } = deb.control;
    for (const warning of warnings) note(`warning: ${warning}`);
    if (args.has("json")) {
      await printJson({ path, name, version, manifest_url: manifestUrl, needs, warnings });
      return 0;
    }
    for (const { key, path } of needs) note(`machines need ${path} too, which ${key} names`);
    await print(`${path}\nInstall it with sbx's package: sudo apt-get install ./sbx_….deb ${path}`);
    return 0;
  },
};

/** Time of the build, for equal packages of equal input. @throws {SbxError} `package.time_invalid` */
function buildTime(): Date {
  const text = Deno.env.get("SOURCE_DATE_EPOCH");
  if (!text) return new Date();
  if (/^\d{1,11}$/.test(text)) return new Date(Number(text) * 1000);
  throw new SbxError(
    "package.time_invalid",
    `SOURCE_DATE_EPOCH is "${text}", which is not a number of seconds`,
    { hint: "set it to seconds since 1970, or unset it" },
  );
}

/** `YYYY.MMDD.HHMM`, UTC. */
function versionOf(time: Date): string {
  const [, year, month, day, hour, minute] = time.toISOString().match(/^(\d+)-(\d+)-(\d+)T(\d+):(\d+)/)!;
  return `${year}.${month}${day}.${hour}${minute}`;
}
