/** What dpkg says is installed in a rootfs. */
/** Fields used from one stanza of dpkg's status. */
export interface DebianPackage {
  name: string;
  version: string;
  arch: string;
  maintainer?: string;
  /** names of packages, each the installed one of its alternatives */
  depends: string[];
}

/** Parses the installed packages of a dpkg status, sorted by name. */
export function installedPackages(status: string): DebianPackage[] {
  const field = (stanza: string, name: string) =>
    stanza.match(new RegExp(`^${name}: (.+)$`, "m"))?.[1].trim();
  const stanzas = status.split(/\n\n+/).filter((stanza) => field(stanza, "Status")?.endsWith(" installed"));
  const providers = new Map<string, string>();
  for (const stanza of stanzas) {
    const name = field(stanza, "Package")!;
    for (const each of names(field(stanza, "Provides"))) if (!providers.has(each)) providers.set(each, name);
  }
  for (const stanza of stanzas) providers.set(field(stanza, "Package")!, field(stanza, "Package")!);
  return stanzas.flatMap((stanza) => {
    const name = field(stanza, "Package"), version = field(stanza, "Version");
    const arch = field(stanza, "Architecture");
    if (!name || !version || !arch) return [];
    const groups = [field(stanza, "Pre-Depends"), field(stanza, "Depends")].flatMap((text) =>
      (text ?? "").split(",")
    );
    const depends = groups.flatMap((group) =>
      names(group, "|").flatMap((each) => providers.get(each) ?? []).slice(0, 1)
    );
    const unique = [...new Set(depends)].filter((each) => each !== name).sort();
    return [{ name, version, arch, maintainer: field(stanza, "Maintainer"), depends: unique }];
  }).sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : a.arch < b.arch ? -1 : 1);
}

/** Names in a list of dpkg's relations, without versions and architectures. */
function names(list = "", separator = ","): string[] {
  return list.split(separator).map((each) => each.trim().replace(/[\s:([].*$/, "")).filter(Boolean);
}
