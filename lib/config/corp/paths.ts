/** Files that corp.toml names by paths (docs/design/contracts/03-settings.md §3). */
import { resolve } from "node:path";
import type { CorpConfig } from "./load.ts";

/** A file that corp.toml names, besides rules and packs. */
export interface NamedFile {
  /** setting, or dotted key, that names it */
  key: string;
  /** absolute */
  path: string;
  /** `file:line` */
  place: string;
  /** true for passwords and keys, which belong into no package */
  isSecret: boolean;
}

const SETTINGS: readonly [id: string, isSecret: boolean][] = [
  ["network.extra_ca_file", false],
  ["network.model_price_file", false],
  ["network.upstream_proxy_auth_file", true],
  ["network.upstream_proxy_auth_program", false],
];

/** @param dir folder in which relative paths begin */
export function corpFilePaths(
  { file, document }: Pick<CorpConfig, "file" | "document">,
  dir: string,
): NamedFile[] {
  const named: [key: string, path: unknown, isSecret: boolean, at: PropertyKey[]][] = [
    ...SETTINGS.map(([id, isSecret]): [string, unknown, boolean, string[]] => [
      id,
      file.settings[id]?.value,
      isSecret,
      ["settings", id, "value"],
    ]),
    ["ledger.auth_token_file", file.ledger.auth_token_file, true, ["ledger", "auth_token_file"]],
    ["release.hmac_key_file", file.release.hmac_key_file, true, ["release", "hmac_key_file"]],
    ["release.trust_file", file.release.trust_file, false, ["release", "trust_file"]],
    ...file.sinks.map(({ id, ca_file }, index): [string, unknown, boolean, PropertyKey[]] => [
      `sinks.${id}.ca_file`,
      ca_file,
      false,
      ["sinks", index, "ca_file"],
    ]),
  ];
  return named.flatMap(([key, path, isSecret, at]) =>
    typeof path === "string" && path !== ""
      ? [{ key, path: resolve(dir, path), place: document.placeOf(at), isSecret }]
      : []
  );
}
