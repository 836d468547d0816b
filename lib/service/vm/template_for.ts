import type { TemplateRequest } from "../../client/api/mod.ts";
import type { AcceleratorChooser } from "./accelerator.ts";
import { type BootSources, DEFAULT_PROFILE, makeBoot } from "./boot.ts";
import type { TemplateFor } from "./templates.ts";

/** The machine that a new VM with this request would have. @throws {SbxError} as {@linkcode makeBoot} */
export async function templateFor(
  sources: BootSources & { accelerators: AcceleratorChooser },
  { profile_id = DEFAULT_PROFILE, cpus, ram_mb, arch }: TemplateRequest,
): Promise<TemplateFor> {
  const { assets, record } = await makeBoot(sources, profile_id, { cpus, ram_mb, arch, env: {} });
  const { accelerator } = await sources.accelerators.choose(assets);
  return { cpus: record.cpus, ram_mb: record.ram_mb, accelerator, assets };
}
