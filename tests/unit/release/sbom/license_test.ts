import { assertEquals } from "@std/assert";
import { debianLicense } from "../../../../lib/release/sbom/mod.ts";
import { isLicense } from "../../../../scripts/sbom.ts";

const CASES: Record<string, string> = {
  "Expat": "MIT",
  "GPL-2+": "GPL-2.0-or-later",
  "GPL-2": "GPL-2.0-only",
  "GPL-2.0+": "GPL-2.0-or-later",
  "LGPL-2.1+": "LGPL-2.1-or-later",
  "LGPL-3": "LGPL-3.0-only",
  "GFDL-NIV-1.3+": "GFDL-1.3-no-invariants-or-later",
  "bsd-3-clause": "BSD-3-Clause",
  "public-domain": "LicenseRef-Debian-public-domain",
  "Artistic or GPL-1+": "Artistic-1.0-Perl OR GPL-1.0-or-later",
  "curl and ISC": "curl AND ISC",
  "GPL-1+ or Artistic, and Expat": "(GPL-1.0-or-later OR Artistic-1.0-Perl) AND MIT",
  "LGPL-3+ or GPL-2+ and curl": "LGPL-3.0-or-later OR (GPL-2.0-or-later AND curl)",
  "GFDL-NIV-1.3+ or GFDL-NIV-1.3+": "GFDL-1.3-no-invariants-or-later",
  "GPL-3+ with Bison exception": "LicenseRef-Debian-GPL-3-or-later-with-Bison-exception",
  "MIT/X11": "LicenseRef-Debian-MIT-X11",
  "Permission is hereby granted, free of charge, to any person obtaining": "LicenseRef-Debian-unnamed",
  "*": "LicenseRef-Debian-unnamed",
};

Deno.test("Debian's names of licences become SPDX expressions", () => {
  for (const [name, expression] of Object.entries(CASES)) {
    assertEquals(debianLicense(name), expression);
    assertEquals(isLicense(expression), true, expression);
  }
});

Deno.test("any name becomes a valid expression", () => {
  const words = ["GPL-2+", "or", "and", ", and", "Expat", "++", "ü", "(x)", "with", "-", ""];
  for (let seed = 0; seed < 3000; seed++) {
    const parts = Array.from(
      { length: 1 + seed % 6 },
      (_, at) => words[(seed * 31 + at * (seed >> 3)) % words.length],
    );
    const expression = debianLicense(parts.join(" "));
    assertEquals(isLicense(expression), true, `${parts.join(" ")} → ${expression}`);
  }
});
