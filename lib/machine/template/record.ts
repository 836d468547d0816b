import { ARCHES } from "../../base/arch/mod.ts";
import { z } from "zod";
import { blake3 } from "../../base/hash/mod.ts";

const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** Everything that the memory of a booted guest depends on: another value needs another template. */
export const TemplateKey = z.strictObject({
  arch: z.enum(ARCHES),
  cpus: z.int().positive(),
  ram_mb: z.int().positive(),
  accelerator: z.enum(["kvm", "tcg", "vz"]),
  assets: z.strictObject({ kernel: hash, initrd: hash, rootfs: hash }),
  host: z.strictObject({ hypervisor: z.string(), processor: z.string(), machine: z.string() }),
});
export type TemplateKey = z.infer<typeof TemplateKey>;

/** template.json: a template's key, and the files of its machine. */
export const TemplateRecord = z.strictObject({
  schema: z.literal("sbx.template.v1"),
  created_at: z.iso.datetime(),
  key: TemplateKey,
  image: z.string().regex(/^image-[0-9a-f-]+$/).describe("folder of the files, another one for each making"),
  files: z.array(z.strictObject({
    name: z.string(),
    hash,
    stamp: z.string().describe(
      "identity of the file that has this hash, so that an unchanged one is not read",
    ),
    bytes: z.int().describe("on the disk: memory that was never used takes none"),
  })),
});
export type TemplateRecord = z.infer<typeof TemplateRecord>;

/** Length of a template's id, in hexadecimal digits. */
const ID_LENGTH = 16;

/** Name of the template for a key, and of its folder. */
export function templateId(key: TemplateKey): string {
  return blake3(JSON.stringify(TemplateKey.parse(key))).slice(0, ID_LENGTH);
}
