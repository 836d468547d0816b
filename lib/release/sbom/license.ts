/** SPDX ids by Debian's short names, in lower case, without version suffixes of the GNU licences. */
const IDS: Record<string, string> = {
  "0bsd": "0BSD",
  "apache-2": "Apache-2.0",
  "apache-2.0": "Apache-2.0",
  "artistic": "Artistic-1.0-Perl",
  "artistic-1": "Artistic-1.0",
  "artistic-2": "Artistic-2.0",
  "artistic-2.0": "Artistic-2.0",
  "beerware": "Beerware",
  "boost": "BSL-1.0",
  "bsd-2-clause": "BSD-2-Clause",
  "bsd-3-clause": "BSD-3-Clause",
  "bsd-3-clause-attribution": "BSD-3-Clause-Attribution",
  "bsd-4-clause": "BSD-4-Clause",
  "bsd-4-clause-uc": "BSD-4-Clause-UC",
  "bsl-1.0": "BSL-1.0",
  "bzip": "bzip2-1.0.6",
  "cc-by-sa-4.0": "CC-BY-SA-4.0",
  "cc0-1.0": "CC0-1.0",
  "curl": "curl",
  "edl-1.0": "BSD-3-Clause",
  "expat": "MIT",
  "fsfap": "FSFAP",
  "fsful": "FSFUL",
  "fsfullr": "FSFULLR",
  "isc": "ISC",
  "latex2e": "Latex2e",
  "mit": "MIT",
  "mit-cmu": "MIT-CMU",
  "mpl-2.0": "MPL-2.0",
  "oldap-2.8": "OLDAP-2.8",
  "openldap": "OLDAP-2.8",
  "psf-2": "PSF-2.0",
  "python-2.0": "Python-2.0",
  "ssh-openssh": "SSH-OpenSSH",
  "unicode-dfs-2016": "Unicode-DFS-2016",
  "x11": "X11",
  "zlib": "Zlib",
};

/** GNU's licences: name, version, and `+` or the word of SPDX for "or any later version". */
const GNU = /^(AGPL|LGPL|GPL|GFDL)(-NIV)?-(\d)(?:\.(\d))?(\+)?$/i;
/** Versions of the LGPL and the GFDL that are no whole number, and a name without its minor version means. */
const MINOR: Record<string, Record<string, string>> = { LGPL: { 2: "0" }, GFDL: { 1: "1" } };
/** Most words of a name without an exception; one with more is the begin of a licence's text. */
const WORDS_MAX = 2;
/** Licence given as text, without a name. */
const UNNAMED = "LicenseRef-Debian-unnamed";
/** Characters that a LicenseRef cannot hold. */
const NOT_IN_REF = /[^A-Za-z0-9.-]+/g;

/**
 * SPDX licence expression of a `License:` field of a Debian copyright file: `and`, `or` and `, and`,
 * which binds weaker. A licence that SPDX does not list, or one with an exception of its own,
 * becomes a `LicenseRef-Debian-…`.
 */
export function debianLicense(name: string): string {
  if (
    name.split(/\s+(?:and|or)\s+/i).some((part) =>
      part.split(/\s+/).length > WORDS_MAX && !/ with /i.test(part)
    )
  ) {
    return UNNAMED;
  }
  const groups = name.trim().split(/,\s+and\s+/i).map((group) =>
    alternatives(
      group.split(/\s+or\s+/i).map((part) =>
        part.split(/\s+and\s+/i).map((each) => licenseId(each.trim())).join(" AND ")
      ),
    )
  );
  return groups.map((group) => groups.length > 1 && group.includes(" OR ") ? `(${group})` : group).join(
    " AND ",
  );
}

function alternatives(parts: string[]): string {
  return [...new Set(parts)].map((part) => parts.length > 1 && part.includes(" AND ") ? `(${part})` : part)
    .join(" OR ");
}

/** SPDX id of one licence, or a reference to it. */
function licenseId(name: string): string {
  const gnu = GNU.exec(name);
  if (gnu) {
    const [, family, invariant, major, minor, later] = gnu;
    const upper = family.toUpperCase();
    const version = `${major}.${minor ?? MINOR[upper]?.[major] ?? "0"}`;
    // SPDX says "no invariants" of versions of the GFDL from 1.1 on.
    return `${upper}-${version}${invariant ? "-no-invariants" : ""}-${later ? "or-later" : "only"}`;
  }
  const id = IDS[name.toLowerCase()];
  if (id) return id;
  const ref = name.replace(/\+/g, "-or-later-").replace(NOT_IN_REF, "-").replace(/-{2,}/g, "-")
    .replace(/^-|-$/g, "");
  return ref ? `LicenseRef-Debian-${ref}` : UNNAMED;
}
