/**
 * Sinks of events that a person names beside corp's: `$SBX_HOME/sinks.toml`, never wider than
 * corp allows (docs/guides/siem.md).
 */
import { join } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { OwnToml } from "../../base/toml/mod.ts";
import type { CorpConfig } from "../../config/corp/mod.ts";
import { type FeedSink, FeedSinks } from "../../ledger/feed/schema.ts";

const File = z.strictObject({ sinks: FeedSinks.default([]) });

/** Part of corp.toml that bounds them. */
type Bounds = Pick<CorpConfig["file"], "sinks"> & { corp: Pick<CorpConfig["file"]["corp"], "limits"> };

/** The person's sinks of one home. */
export class OwnSinks {
  readonly #file: OwnToml<typeof File>;
  /** of the content that was read last */
  #stamp = "";
  #sinks: FeedSink[] = [];

  constructor({ dir }: Pick<Home, "dir">) {
    this.#file = new OwnToml(join(dir, "sinks.toml"), {
      schema: File,
      code: "sinks.invalid",
      meanwhile: "events go to none of its sinks",
    });
  }

  /**
   * The sinks, with corp's redactions.
   *
   * @throws {SbxError} `sinks.invalid`: the file is invalid, or others may write it; `corp.sinks`: one is
   * not of a host that corp allows
   */
  async read(corp: Bounds | undefined): Promise<FeedSink[]> {
    const { path } = this.#file;
    const info = await Deno.stat(path).catch(() => undefined);
    const stamp = info ? `${info.ino} ${info.mtime?.getTime()} ${info.size} ${info.mode} ${info.uid}` : "";
    if (stamp !== this.#stamp) {
      this.#sinks = [];
      this.#stamp = "";
      this.#sinks = (await this.#file.read()).sinks;
      this.#stamp = stamp;
    }
    return corp ? this.#sinks.map((sink) => bounded(sink, corp, path)) : this.#sinks;
  }
}

/** A field that corp redacts on its way to one of its own sinks does not leave by a person's. */
function bounded(sink: FeedSink, { sinks, corp: { limits } }: Bounds, path: string): FeedSink {
  const host = sink.form === "file" ? "file" : URL.parse(sink.url)?.hostname ?? "";
  const isAllowed = (limits?.sinks ?? [host]).some((allowed) =>
    allowed.startsWith("*.") ? host.endsWith(allowed.slice(1)) : host === allowed
  );
  if (!isAllowed) {
    throw new SbxError("corp.sinks", `${path}: corp allows no sink of events at ${host} ("${sink.id}")`, {
      hint: "sbx corp info shows corp's limits; remove it, or ask your administrator",
    });
  }
  const redact = { ...sink.redact };
  for (const terms of sinks) {
    for (const [field, how] of Object.entries(terms.redact)) {
      if (redact[field] !== "remove") redact[field] = how;
    }
  }
  return { ...sink, redact };
}
