/** Packages of the engines, as scripts/engines/package-lock.json has them. */

export interface EnginePackage {
  name: string;
  version: string;
  /** `sha512-` and the hash in Base64 */
  integrity: string;
  engine: "duckdb" | "chdb";
  /** operating system and processor, as Node names them; absent: all */
  on?: string;
}

/** Programs for glibc; sbx has no others. */
export const ENGINE_PACKAGES: readonly EnginePackage[] = [
  {
    name: "@chdb/lib-linux-x64-gnu",
    version: "26.7.3-stable.1",
    integrity:
      "sha512-XP97mMqnc5tZpKQywR8N7cLTsHNiTmHr30pC5mzo3jWmukjKn2IBa60c2B/gWUNcuFjOMjWoorQICCqBVj5wpw==",
    engine: "chdb",
    on: "linux-x64",
  },
  {
    name: "@clickhouse/client-common",
    version: "1.23.0",
    integrity:
      "sha512-OkuxPkQ+ph8CCrt/4DYBvlJ9D9Q9q7FwvP8FdwER+7UDNO3jN4Ee6SZl9iLupKJIvKeuS68+x86ZyqFuHdPK3g==",
    engine: "chdb",
  },
  {
    name: "@duckdb/node-api",
    version: "1.5.6-r.1",
    integrity:
      "sha512-yIPol6P4EQmsAUsb27donJf7iADrM31Ei/WkvhkZpSscjhEErYsuF19lsJ/qz5mUWxsKFQpLdjvrlhPQnMTBqw==",
    engine: "duckdb",
  },
  {
    name: "@duckdb/node-bindings",
    version: "1.5.6-r.1",
    integrity:
      "sha512-/pWlTyvKC1d16iSMJCBAPwlmzoeXRs5Y9cqG+TpKd/YAW6Ke05FJg099v/Im2bkS9BgznNyNcAK1NxA1eQhSUw==",
    engine: "duckdb",
  },
  {
    name: "@duckdb/node-bindings-darwin-arm64",
    version: "1.5.6-r.1",
    integrity:
      "sha512-KFT/J/pyouuAD1jftAIfcWVRdorg+c/yVR/BJL8LJKrST+mYC4d7QSuQ+iXSYbFpHENUAeZUagXrMPtZT8Xzsg==",
    engine: "duckdb",
    on: "darwin-arm64",
  },
  {
    name: "@duckdb/node-bindings-darwin-x64",
    version: "1.5.6-r.1",
    integrity:
      "sha512-tVwUZNvdQoaPJhrh3q2e6jxm1MhahNHJQK/pvCyco46NX0mEuGzlw9i0n2MArgsyzccdCwScOK9ctbyr+3oMbQ==",
    engine: "duckdb",
    on: "darwin-x64",
  },
  {
    name: "@duckdb/node-bindings-linux-arm64",
    version: "1.5.6-r.1",
    integrity:
      "sha512-3jnUaDil1BrF/6vAZwVaInJ1xoBaWGHB4PDiUnzJWKCo8a8TLx9j7/gPyPl/UGRBftrYIuTihRZSfF4mWMgtWA==",
    engine: "duckdb",
    on: "linux-arm64",
  },
  {
    name: "@duckdb/node-bindings-linux-x64",
    version: "1.5.6-r.1",
    integrity:
      "sha512-IXcrZJE6kEqM0Z4wwdVnGBHX/frOS33VPNAwDXQ/Q+Fs84b058Qe94chrCCIcNJlG8Y3UHIUU4eBeCQxW5mN1Q==",
    engine: "duckdb",
    on: "linux-x64",
  },
  {
    name: "chdb",
    version: "3.4.0",
    integrity:
      "sha512-HMNj4dq3lIrwqxwGSuuEjo9EIlC+k8IjsSQHh1ZStGvV6MRckfvPM2aDqzdW1ti3fldrt9UIntJBm0AbV9nbDQ==",
    engine: "chdb",
  },
  {
    name: "detect-libc",
    version: "2.1.2",
    integrity:
      "sha512-Btj2BOOO83o3WyH59e8MgXsxEQVcarkUOpEYrubB0urwnN10yQ364rsiByU11nZlqWYZm05i/of7io4mzihBtQ==",
    engine: "duckdb",
  },
  {
    name: "node-addon-api",
    version: "6.1.0",
    integrity:
      "sha512-+eawOlIgy680F0kBzPUNFhMZGtJ1YmqM6l4+Crf4IkImjYrO/mqPwRMh352g23uIaQKFItcQ64I7KMaJxHgAVA==",
    engine: "chdb",
  },
  {
    name: "node-gyp-build",
    version: "4.8.4",
    integrity:
      "sha512-LA4ZjwlnUblHVgq0oBF3Jl/6h/Nvs5fzBLwdEF4nuxnFdsfajde4WfxtJr3CaiH+F6ewcIB/q4jQ4UzPyid+CQ==",
    engine: "chdb",
  },
];
